"""What every case needs: the machine, a psid of its own, programs started on either path.

The programs under test are the same on both paths; the only difference is the environment: with
LD_PRELOAD and this run's psid, or without. Whoever reports figures of PULC asks psid whether the
bytes went through rings: staying on the kernel is always legal, and would measure the kernel twice.
"""

import json
import os
import pathlib
import platform
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PULC_BUILD", ROOT / "build"))
PRELOAD = BUILD / "lib" / "libpulc-preload.so"
SECONDS_TO_START = 10
SECONDS_TO_RUN = 120  # no program here takes longer, unless it hangs


class Failed(Exception):
    """A case could not be run; the text says why."""


def tool(name):
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if not path:
        raise Failed(f"{name} is not installed")
    return path


def wait_until(condition, what):
    """Polls for something outside our control that has no event to wait for."""
    deadline = time.monotonic() + SECONDS_TO_START
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"{what} did not happen within {SECONDS_TO_START} s")
        time.sleep(0.01)


def msec_of_run(command, seconds_max, **options):
    """How long a command takes, and its status. subprocess.run, given a limit, looks every 50 ms only."""
    begin = time.monotonic()
    with subprocess.Popen(command, **options) as process:
        pidfd = os.pidfd_open(process.pid)
        ended = select.select([pidfd], [], [], seconds_max)[0]
        msec = (time.monotonic() - begin) * 1000
        os.close(pidfd)
        if not ended:
            process.kill()
            raise subprocess.TimeoutExpired(command, seconds_max)
    return msec, process.returncode


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port):
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def process_group(pid):
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


class Machine:
    """The processors to use, and what a reader must know to compare figures."""

    def __init__(self):
        allowed = sorted(os.sched_getaffinity(0))
        self.server = allowed[0]
        others = [cpu for cpu in allowed if cpu not in self._siblings(self.server)]
        self.client = (others or allowed[1:] or allowed)[0]
        self.n_allowed = len(allowed)

    @staticmethod
    def _siblings(cpu):
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings = {cpu}
        for part in path.read_text().strip().split(",") if path.exists() else ():
            first, _, last = part.partition("-")
            siblings.update(range(int(first), int(last or first) + 1))
        return siblings

    def _caches(self):
        found = []
        folder = pathlib.Path(f"/sys/devices/system/cpu/cpu{self.server}/cache")
        for index in sorted(folder.glob("index*")):
            kind = {"Data": "d", "Instruction": "i"}.get((index / "type").read_text().strip(), "")
            level, size = ((index / name).read_text().strip() for name in ("level", "size"))
            found.append(f"L{level}{kind} {size}")
        return ", ".join(found)

    def describe(self):
        names = [line.split(":", 1)[1].strip()
                 for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")]
        return (f"machine   {(names or [platform.machine()])[0]}, {self.n_allowed} processors, "
                f"using {self.server} and {self.client}\n"
                f"caches    {self._caches()}\n"
                f"kernel    {platform.system()} {platform.release()}\n")


def built(program):
    """The path of something in the build folder, which must be there."""
    path = BUILD / program
    if not path.exists():
        raise Failed(f"{path} is not built: make all bench-programs")
    return path


class Psid:
    """A psid for this run alone, in a run directory of its own. all_users: not for ours alone; needs root."""

    def __init__(self, all_users=False):
        self.command = [built("bin/psid"), *(["--system"] if all_users else [])]
        self.mode = 0o755 if all_users else 0o700
        self.process = None
        self.directory = None

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="pulc-bench-")
        os.chmod(self.directory, self.mode)
        log = open(os.path.join(self.directory, "psid.log"), "wb")
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL,
                                            env=self.environment(preload=False),
                                            stdout=log, stderr=log)
            wait_until(lambda: os.path.exists(os.path.join(self.directory, "psid.sock")),
                       "the start of psid")
        except (OSError, Failed) as failure:
            self.__exit__()
            raise Failed(f"no psid: {failure}") from failure
        finally:
            log.close()
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def environment(self, preload=True):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("PULC_") and name != "LD_PRELOAD"}
        env["PULC_RUNTIME_DIR"] = self.directory
        env["PULC_IDLE_EXIT_SEC"] = "0"  # it also waits through the kernel's turns
        if preload:
            env["LD_PRELOAD"] = str(PRELOAD)
        return env

    def ask(self, question):
        done = subprocess.run([BUILD / "bin" / "pulcctl", question, "--json"],
                              env=self.environment(preload=False), capture_output=True, text=True,
                              timeout=SECONDS_TO_RUN, check=False)
        if done.returncode:
            raise Failed(f"pulcctl {question}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def n_upgrades(self):
        return self.ask("status")["n_upgrades"]

    def ends_on_rings(self, group, size_least=1):
        """How many connection ends of a process group have moved that many bytes through rings."""
        return sum(end["path"] == "rings" and process_group(end["pid"]) == group and
                   end["size_sent"] + end["size_received"] >= size_least
                   for end in self.ask("sockets"))


class Progress:
    """One line that says what is being measured."""

    def __init__(self):
        self.live = sys.stderr.isatty()
        self.title = ""

    def begin(self, title):
        self.title = title
        if not self.live:
            print(title, file=sys.stderr, flush=True)

    def step(self, what):
        if self.live:
            print(f"\r\033[K{self.title}: {what}", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def parse_figures(line):
    """'name=value' pairs of a benchmark program's line; numbers as numbers."""
    figures = {}
    for pair in line.split():
        name, _, value = pair.partition("=")
        try:
            figures[name] = float(value)
        except ValueError:
            figures[name] = value
    return figures


class Bench:
    """One run: starts programs, collects calibrations, remembers what did not go over rings."""

    def __init__(self, machine, psid, quick):
        self.machine = machine
        self.psid = psid
        self.quick = quick
        self.progress = Progress()
        self.calibrations = []
        self.tables = []  # texts that cases have besides their rows

    def repetitions(self, n=5, n_quick=1):
        """Counts repetitions; the floor is measured at the beginning of each."""
        n = n_quick if self.quick else n
        for at in range(1, n + 1):
            self.progress.step(f"repetition {at} of {n}")
            self.calibrations.append(self.program("floor", "--msec", "30")[0])
            yield self.calibrations[-1]

    def msec(self, n):
        return str(n // 3 if self.quick else n)

    def calibration(self):
        def middle(name):
            return statistics.median(c[name] for c in self.calibrations)

        if not self.calibrations:
            return ""
        return (f"floor     cache line one way {middle('line_ns'):.1f} ns; memcpy 64 KiB "
                f"{middle('memcpy_64k_gbs'):.1f} GB/s, 1 MiB {middle('memcpy_1m_gbs'):.1f} GB/s\n")

    def environment(self, pulc):
        return self.psid.environment(preload=pulc)

    def program(self, name, *options, pulc=False, n_lines=1, look=None, cpus=True):
        """Runs a benchmark program and returns its lines, each a dict of figures.

        look(group) is called, when all lines are there, while the program keeps its connections
        (which it does with --stay, until its standard input ends).
        """
        command = [built(f"bench/{name}")]
        if cpus:
            command += ["--server-cpu", str(self.machine.server),
                        "--client-cpu", str(self.machine.client)]
        command += options  # which may name other processors: the last one counts
        with subprocess.Popen(command, env=self.environment(pulc), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            watchdog = threading.Timer(SECONDS_TO_RUN, os.killpg, (process.pid, signal.SIGKILL))
            watchdog.start()
            try:
                lines = [process.stdout.readline() for _ in range(n_lines)]
                if look and all(lines):
                    look(process.pid)
                _, errors = process.communicate()
            finally:
                watchdog.cancel()
        if process.returncode or not all(lines):
            path = "under PULC" if pulc else "on the kernel"
            raise Failed(f"{name} {path}: {errors.strip() or 'ended early or hung'}")
        return [parse_figures(line) for line in lines]

    def rounds(self, msec=5):
        """Options of a program that runs for bench.msec(300), divided into rounds of so long with the floor between. None on
        one processor, where two that take turns by spinning would wait for the end of each other's time."""
        if self.machine.server == self.machine.client:
            return ()
        return "--rounds", str((100 if self.quick else 300) // msec)

    def floor(self):
        """For programs that are not ours, and can't measure it themselves: just before them, and just after."""
        return self.program("floor", "--msec", "10")[0]

    def on_rings(self, name, *options, n_lines=1, n_ends=2):
        """The same under PULC. Returns (lines, note); the note says what was not on rings."""
        counted = []
        lines = self.program(name, *options, "--stay", pulc=True, n_lines=n_lines,
                             look=lambda group: counted.append(self.psid.ends_on_rings(group)))
        if counted and counted[0] >= n_ends:
            return lines, ""
        return lines, f"not over rings: {counted[0] if counted else 0} of {n_ends} ends were"

    def server(self, command, port, pulc):
        """Starts a server on the server's processor and waits until it listens."""
        process = subprocess.Popen(
            command, env=self.environment(pulc), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {self.machine.server}))
        try:
            wait_until(lambda: listening(port) or process.poll() is not None,
                       f"{command[0]} listening")
        except Failed:
            process.kill()
            process.wait()
            raise
        return process

    def client(self, command, pulc):
        """Starts a client on the client's processor; its output is a pipe."""
        return subprocess.Popen(
            command, env=self.environment(pulc), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {self.machine.client}))


def output_of(process):
    """Waits for a client; returns what it said."""
    try:
        said, errors = process.communicate(timeout=SECONDS_TO_RUN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Failed(f"{process.args[0]} hung") from None
    if process.returncode:
        raise Failed(f"{process.args[0]}: {(errors or said).strip()[-300:]}")
    return said


def stop(process):
    process.terminate()
    try:
        process.wait(timeout=SECONDS_TO_START)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def msec_until_gone(process, mark, seconds_max):
    """Waits for the process, which was just killed, and until nobody carries the mark; ms."""
    begin = time.monotonic()
    process.wait()
    while carry(mark) and time.monotonic() - begin < seconds_max:
        pass
    return (time.monotonic() - begin) * 1000


def carry(mark):
    """Does a process live whose environment has this?"""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in pathlib.Path("/proc", pid, "environ").read_bytes().split(b"\0"):
                return True
        except OSError:
            pass
    return False
