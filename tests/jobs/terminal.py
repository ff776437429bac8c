#!/usr/bin/env python3
"""A person at a terminal: starts pulcrun from a shell with job control and does what people do.

    terminal.py PULCRUN     one line for each test: "ok NAME" or "not ok NAME: why"
"""
import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import termios
import time

PULCRUN = sys.argv[1]
PATIENCE = 15


class Failed(Exception):
    pass


class Terminal:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        self.said = ""
        if self.pid == 0:
            env = dict(os.environ, PS1="> ", TERM="dumb")
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], env)
        self.expect("> ")

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        """Waits for it, and forgets what was said up to there."""
        end = time.monotonic() + PATIENCE
        while text not in self.said:
            ready = select.select([self.fd], [], [], max(end - time.monotonic(), 0))[0]
            if not ready:
                raise Failed("no %r, but %r" % (text, self.said[-200:]))
            self.said += os.read(self.fd, 65536).decode(errors="replace")
        self.said = self.said[self.said.index(text) + len(text):]

    def await_raw(self, raw):
        end = time.monotonic() + PATIENCE
        while bool(termios.tcgetattr(self.fd)[3] & termios.ICANON) == raw:
            if time.monotonic() > end:
                raise Failed("the terminal is " + ("not raw" if raw else "raw"))
            time.sleep(0.02)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def pulcruns(terminal):
    """The processes of that name which the shell has started."""
    out = subprocess.run(["pgrep", "-P", str(terminal.pid), "-x", "pulcrun"], stdout=subprocess.PIPE)
    return [int(word) for word in out.stdout.split()]


# What a task says differs from what is typed, which the terminal shows as well.
UPPER = " sh -c 'echo re''ady; while read -r x; do echo \"<$x>\"; done'\r"


def start(t):
    t.type(PULCRUN + UPPER)
    t.expect("ready")
    t.type("one\r")
    t.expect("<one>")


def stopped_and_continued(t):
    start(t)
    t.type("\x1a")
    t.expect("> ")
    t.type("fg\r")
    t.expect("sh -c")
    t.type("two\r")
    t.expect("<two>")
    t.type("\x04")
    t.expect("> ")


def away_and_back(t):
    start(t)
    t.type("\x1a")
    t.expect("> ")
    t.type("bg\r")
    t.expect("> ")
    t.type("echo not''hing\r")
    t.expect("nothing")
    t.type("fg\r")
    t.expect("sh -c")
    t.type("two\r")
    t.expect("<two>")
    t.type("\x04")
    t.expect("> ")


def begun_in_the_background(t):
    t.type(PULCRUN + UPPER.rstrip() + " &\r")
    t.expect("ready")
    t.type("fg\r")
    t.expect("sh -c")
    t.type("one\r")
    t.expect("<one>")
    t.type("\x04")
    t.expect("> ")


def goes_on_in_front(t):
    t.type("fg\r")
    t.expect("sh -c")
    t.await_raw(True)
    t.type("one\r")
    t.expect("<one>")
    t.type("\x04")
    t.expect("> ")
    t.await_raw(False)


def raw_again(t):
    t.type(PULCRUN + " --pty" + UPPER)
    t.expect("ready")
    t.await_raw(True)
    os.kill(pulcruns(t)[0], signal.SIGTSTP)
    t.expect("> ")
    t.await_raw(False)
    goes_on_in_front(t)


def raw_when_in_front(t):
    t.type(PULCRUN + " --pty" + UPPER.rstrip() + " &\r")
    t.expect("ready")
    t.await_raw(False)
    goes_on_in_front(t)


def interrupted_in_a_loop(t):
    """An interrupt ends what the shell does, too: as after any program that is ended by it."""
    t.type("for i in 1 2; do " + PULCRUN + " sh -c 'echo re''ady $PULC_JOB; exec sleep 1000'; done; echo af''ter\r")
    t.expect("ready ")
    t.type("\x03")
    t.expect("> ")
    t.type("echo $((1$? + 1))\r")
    t.expect("1131")
    t.type("exit\r")
    t.expect("exit")
    if "after" in t.said or "ready" in t.said:
        raise Failed("the loop goes on: %r" % t.said)


def interrupted_and_handled(t):
    """But a task that has its own idea of an interrupt, and ends as it likes, has not been interrupted."""
    t.type("for i in 1; do " + PULCRUN + " sh -c 'trap \"exit 3\" INT; echo re''ady; while :; do sleep 0.02; done'; done; echo af''ter\r")
    t.expect("ready")
    t.type("\x03")
    t.expect("after")


def psid():
    status = subprocess.run([os.path.join(os.path.dirname(PULCRUN), "pulcctl"), "status", "--json"], stdout=subprocess.PIPE)
    return json.loads(status.stdout)["pid"]


def has_asked(t):
    """pulcrun has the socket of psid, and its end of the keeper's channel. Returns its process."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for pid in pulcruns(t):
            fds = subprocess.run(["ls", "-l", "/proc/%d/fd" % pid], stdout=subprocess.PIPE).stdout
            if fds.count(b"socket:") >= 2:
                return pid
        time.sleep(0.02)
    raise Failed("psid is not asked")


def no_memory(t):
    """Once there is a job it needs memory for 20000 tasks, which is not to be had; none of them is started."""
    t.type(PULCRUN + " true\r")
    t.expect("> ")
    stopped = psid()
    os.kill(stopped, signal.SIGSTOP)
    try:
        t.type(PULCRUN + " --pty -n 20000 --oversubscribe --directory /none true\r")
        pid = has_asked(t)
        size = int(open("/proc/%d/statm" % pid).read().split()[0]) * resource.getpagesize() + (1 << 20)
        resource.prlimit(pid, resource.RLIMIT_AS, (size, size))
    finally:
        os.kill(stopped, signal.SIGCONT)
    t.expect("pulcrun: no memory")
    t.await_raw(False)


def no_job_yet(t):
    """Before there is a job an interrupt is for pulcrun, whatever terminal the tasks will have."""
    t.type(PULCRUN + " true\r")
    t.expect("> ")
    stopped = psid()
    os.kill(stopped, signal.SIGSTOP)
    try:
        t.type(PULCRUN + " --pty cat\r")
        has_asked(t)
        t.type("\x03")
        t.expect("> ")
        t.type("echo $((1$? + 1))\r")
        t.expect("1131")
    finally:
        os.kill(stopped, signal.SIGCONT)


def terminal_of_another(_):
    """Standard input is a terminal, but not that of our session."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen([PULCRUN, "sh", "-c", "read -r x; echo \"<$x>\""], stdin=theirs, stdout=subprocess.PIPE,
                           start_new_session=True)
    os.close(theirs)
    os.write(ours, b"one\r")
    try:
        said = run.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired as e:
        run.kill()
        run.communicate()
        raise Failed("its input does not come") from e
    finally:
        os.close(ours)
    if said != b"<one>\n":
        raise Failed("said %r" % said)


for test in (stopped_and_continued, away_and_back, begun_in_the_background, raw_again, raw_when_in_front,
             interrupted_in_a_loop, interrupted_and_handled, no_memory, no_job_yet, terminal_of_another):
    terminal = Terminal()
    try:
        test(terminal)
        print("ok jobs.terminal." + test.__name__)
    except Failed as why:
        print("not ok jobs.terminal.%s: %s" % (test.__name__, why))
    for pid in pulcruns(terminal):
        os.kill(pid, signal.SIGKILL)
    terminal.close()
