"""pulcctl top on a pseudo-terminal: the other screen, as many lines as there are, and the terminal as it was afterwards.

    top.py PULCCTL          five jobs are there: the picture, a resize, keys, signals
    top.py PULCCTL FILE     makes FILE when the picture is there, and sees what the end of psid does

Prints test results; pulcctl.sh runs it. Every wait has a limit that no healthy machine reaches.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 60
ENTER, LEAVE, HOME = b"\033[?1049h", b"\033[?1049l", b"\033[H\033[J"


def check(name, good, why=""):
    print(f"ok pulcctl.top.{name}" if good else f"not ok pulcctl.top.{name}: {why}", flush=True)


class Top:
    def __init__(self, lines):
        self.seen, self.status = b"", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.pop("COLUMNS", None)
            os.read(0, 2)  # until the window has its size
            os.execv(sys.argv[1], ["pulcctl", "--watch=0.1", "top"])
        self.resize(lines)
        self.usual = termios.tcgetattr(self.fd)
        self.type(b"\n")

    def resize(self, lines):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 100, 0, 0))

    def type(self, keys):
        os.write(self.fd, keys)

    def read(self):
        """What comes now; False when the program has closed its terminal."""
        if not select.select([self.fd], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.seen += data
        return data != b""

    def pictures(self):
        """Whole ones, as lists of lines."""
        return [p.replace(b"\r\n", b"\n").split(b"\n") for p in self.seen.split(HOME)[1:-1]]

    def comes(self, condition):
        end = time.monotonic() + LIMIT
        while not condition():
            if not self.read() or time.monotonic() > end:
                return condition()
        return True

    def ends(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while select.select([self.fd], [], [], 0)[0] and self.read():
                    pass
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None

    def has_lines(self, lines):
        """The last whole picture fills that many: its own, and the cursor's."""
        last = self.pictures()[-1:]
        return bool(last) and len(last[0]) == lines and b" more" in last[0][-2]

    def is_restored(self):
        return self.seen.count(ENTER) == 1 and self.seen.count(LEAVE) == 1 and termios.tcgetattr(self.fd) == self.usual


def picture_and_keys():
    top = Top(10)
    check("fills_the_lines", top.comes(lambda: top.has_lines(10)), top.seen[-2000:])
    before = top.seen.find(HOME)
    check("on_the_other_screen", 0 <= top.seen.find(ENTER) < before and LEAVE not in top.seen, top.seen[:200])
    check("shows_nodes_and_jobs", all(word in b"\n".join(top.pictures()[-1]) for word in (b"NODE ", b"JOB ")), top.seen[-2000:])
    top.resize(9)
    check("follows_the_window", top.comes(lambda: top.has_lines(9)), top.seen[-2000:])
    top.resize(40)
    check("shows_all_that_fits", top.comes(lambda: len(top.pictures()[-1]) > 10 and b" more" not in top.pictures()[-1][-2]), top.seen[-2000:])
    n = len(top.pictures())
    top.type(b"xyz")
    check("other_keys_do_nothing", top.comes(lambda: len(top.pictures()) > n + 2) and b"xyz" not in top.seen, top.seen[-200:])
    top.type(b"q")
    check("q_ends_it", (status := top.ends()) == 0, status)
    check("q_restores", top.is_restored(), top.seen[-200:])


def signals():
    for name, end in ("interrupt_key", lambda t: t.type(b"\003")), ("sigterm", lambda t: os.kill(t.pid, signal.SIGTERM)):
        top = Top(24)
        check(f"{name}.is_there", top.comes(top.pictures), top.seen)
        end(top)
        check(f"{name}.ends_it", (status := top.ends()) in (-signal.SIGINT, -signal.SIGTERM), status)
        check(f"{name}.restores", top.is_restored(), top.seen[-200:])


def end_of_psid(file):
    top = Top(24)
    good = top.comes(top.pictures)
    open(file, "w").close()
    check("psid.is_there", good, top.seen)
    check("psid.ends_it", (status := top.ends()) == 3, status)
    check("psid.restores", top.is_restored(), top.seen[-200:])
    check("psid.is_said_on_the_usual_screen", b"pulcctl: " in top.seen.partition(LEAVE)[2], top.seen[-200:])


if len(sys.argv) > 2:
    end_of_psid(sys.argv[2])
else:
    picture_and_keys()
    signals()
