"""pulcctl top on a pseudo-terminal: the other screen, as many lines as there are, and the terminal as it was afterwards,
or while it is stopped.

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


def execute(interval):
    os.environ.pop("COLUMNS", None)
    os.execv(sys.argv[1], ["pulcctl", "--watch=" + interval, "top"])


def be_a_shell(command):
    """A shell with one job, which knows fg and bg; the terminal is its own while the job is stopped or behind."""

    def to_front(group):
        os.tcsetpgrp(0, group)

    def job():
        os.setpgid(0, 0)
        to_front(os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        command()

    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        job()
    while True:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        to_front(os.getpgrp())
        if not os.WIFSTOPPED(status):
            print(f"<ended {os.waitstatus_to_exitcode(status)}>", flush=True)
            sys.exit(0)
        print(f"<stopped {os.WSTOPSIG(status)}>", flush=True)
        if os.read(0, 64).strip() == b"fg":
            to_front(pid)
        os.killpg(pid, signal.SIGCONT)


class Top:
    def __init__(self, lines, interval="0.1", shell=False):
        self.seen, self.status = b"", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.read(0, 2)  # until the window has its size
            if shell:
                be_a_shell(lambda: execute(interval))
            execute(interval)
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

    def is_restored(self, times=1):
        return self.seen.count(ENTER) == self.seen.count(LEAVE) == times and self.has_usual_keys()

    def has_usual_keys(self):
        return termios.tcgetattr(self.fd) == self.usual


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


def job_control():
    """Pictures come once in an hour here, but for those that a signal brings."""
    top = Top(24, interval="3600", shell=True)
    stopped, whole = f"<stopped {signal.SIGTSTP:d}>".encode(), b"JOB "
    shown = lambda times: top.comes(lambda: top.seen.count(ENTER) == times and whole in top.seen.rpartition(ENTER)[2])
    check("stop.is_there", shown(1), top.seen)
    for times in 1, 2:
        top.type(b"\032")
        check(f"stop.stops_{times}", top.comes(lambda: top.seen.count(stopped) == times), top.seen[-200:])
        check(f"stop.restores_{times}", top.is_restored(times) and top.seen.rfind(LEAVE) < top.seen.rfind(stopped), top.seen[-200:])
        top.type(b"fg\n")
        check(f"stop.is_back_{times}", shown(times + 1), top.seen[-200:])
        check(f"stop.takes_keys_{times}", not top.has_usual_keys())
    top.type(b"\032")
    check("background.stops", top.comes(lambda: top.seen.count(stopped) == 3), top.seen[-200:])
    top.type(b"bg\n")
    reason = f"<stopped {signal.SIGTTOU:d}>".encode()
    check("background.does_not_draw", top.comes(lambda: reason in top.seen) and top.is_restored(3), top.seen[-200:])
    top.type(b"fg\n")
    check("background.is_back", shown(4), top.seen[-200:])
    os.kill(os.tcgetpgrp(top.fd), signal.SIGSTOP)
    reason = f"<stopped {signal.SIGSTOP:d}>".encode()
    check("sigstop.stops", top.comes(lambda: reason in top.seen), top.seen[-200:])
    top.type(b"fg\n")
    check("sigstop.is_back", shown(5), top.seen[-200:])
    top.type(b"q")
    check("stop.q_ends_it", top.comes(lambda: b"<ended 0>" in top.seen), top.seen[-200:])
    check("stop.q_restores", top.seen.count(LEAVE) == 4 and top.has_usual_keys(), top.seen[-200:])
    top.ends()


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
    job_control()
