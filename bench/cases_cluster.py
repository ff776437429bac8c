"""The cases of the cluster: many psids on this machine, in a network namespace of their own."""

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import harness
import report
from cases import Series, case

SECONDS_TO_MEET = 60
SECONDS_MAX = 120
CTL = harness.BUILD / "bin" / "pulcctl"


class Lab:
    """So many psids of one cluster, at addresses of a loopback interface that nobody else uses.

    apart: each in a network namespace of its own, with a cable to a switch, as tests/cluster has them.
    """

    def __init__(self, n, apart=False):
        self.n = n
        self.apart = apart
        self.processes = []
        self.name = f"pulc-bench-{os.getpid()}"
        self.directory = tempfile.mkdtemp(prefix="pulc-lab-")

    def __enter__(self):
        try:
            self.make_network()
            self.run(CTL, "keygen", f"{self.directory}/key")
            self.pretend_idle()
            for i in range(1, self.n + 1):
                self.start(i)
            self.await_meeting()
        except (OSError, harness.Failed, subprocess.CalledProcessError) as failure:
            self.__exit__()
            raise harness.Failed(f"no cluster of {self.n}: {failure}") from failure
        return self

    def make_network(self):
        self.run("ip", "netns", "add", self.name)
        self.run("ip", "-n", self.name, "link", "set", "lo", "up")
        if not self.apart:
            return
        self.run("ip", "-n", self.name, "link", "add", "br0", "type", "bridge")
        self.run("ip", "-n", self.name, "link", "set", "br0", "up")
        for i in range(1, self.n + 1):
            space = self.space(i)
            self.run("ip", "netns", "add", space)
            self.run("ip", "-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}",
                     "netns", self.name)
            self.run("ip", "-n", self.name, "link", "set", f"port{i}", "master", "br0", "up")
            self.run("ip", "-n", space, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            self.run("ip", "-n", space, "link", "set", "eth0", "up")
            self.run("ip", "-n", space, "link", "set", "lo", "up")

    def space(self, i):
        return f"{self.name}-{i}" if self.apart else self.name

    def address(self, i):
        return f"10.77.0.{i}" if self.apart else f"127.0.1.{i}"

    def pretend_idle(self):
        """All nodes are this machine: what else it does would look different to each of them."""
        folder = pathlib.Path(self.directory, "proc")
        folder.mkdir()
        (folder / "loadavg").write_text("0.00 0.00 0.00 1/100 1\n", encoding="ascii")
        (folder / "meminfo").write_text("MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n",
                                        encoding="ascii")

    def await_meeting(self):
        end = time.monotonic() + SECONDS_TO_MEET
        while not all(map(self.knows_all, range(1, self.n + 1))):
            if time.monotonic() > end:
                raise harness.Failed(f"they have not met in {SECONDS_TO_MEET} s")
            time.sleep(0.5)

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for name in {self.name, *map(self.space, range(1, self.n + 1))}:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def run(*command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def environment(self, i):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PULC_")}
        env.update(PULC_RUNTIME_DIR=f"{self.directory}/{i}", PULC_NODE_NAME=f"n{i}",
                   PULC_CLUSTER_NAME="bench", PULC_CLUSTER_KEY_FILE=f"{self.directory}/key",
                   PULC_CLUSTER_ADDRESS=self.address(i), PULC_CLUSTER_SEEDS=self.address(1),
                   PULC_LOAD_FROM=f"{self.directory}/proc", PULC_IDLE_EXIT_SEC="0")
        return env

    def inside(self, *command, i=1):
        """A command on the network of psid i."""
        return ["ip", "netns", "exec", self.space(i), *map(str, command)]

    def start(self, i):
        os.mkdir(f"{self.directory}/{i}", 0o700)
        with open(f"{self.directory}/{i}/log", "wb") as log:
            self.processes.append(subprocess.Popen(
                self.inside(harness.BUILD / "bin" / "psid", i=i), env=self.environment(i),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log))

    def lose(self, percent):
        """So many of all datagrams, from now on."""
        rules = ("table inet bench { chain out { type filter hook output priority 0; "
                 f"meta l4proto udp numgen random mod 100 < {percent} drop; }}; }}")
        subprocess.run(self.inside("nft", "-f", "-"), input=rules.encode(), check=True)

    def deaths(self):
        """How often one has found another one dead."""
        return sum(pathlib.Path(self.directory, str(i), "log").read_text(encoding="utf-8").count(" is dead")
                   for i in range(1, self.n + 1))

    def knows_all(self, i):
        done = subprocess.run([CTL, "nodes", "--json"], env=self.environment(i),
                              capture_output=True, text=True, check=False)
        return done.returncode == 0 and \
            sum(node["state"] == "alive" for node in json.loads(done.stdout)) == self.n

    def knows_dead_since(self, i, dead, begin):
        """How many milliseconds after begin node i knew it; waits for that."""
        end = time.monotonic() + SECONDS_MAX
        while time.monotonic() < end:
            done = subprocess.run([CTL, "nodes", "--json"], env=self.environment(i), capture_output=True,
                                  text=True, check=True)
            now = time.time()
            for node in json.loads(done.stdout):
                if node["name"] == f"n{dead}" and node["state"] == "dead":
                    return (now - node["since_usec"] / 1e6 - begin) * 1000
            time.sleep(0.1)
        raise harness.Failed(f"node {i} does not learn of a death")

    def bytes_sent(self):
        """By all of them: what has passed the interface, which has no headers of a link."""
        pid = self.processes[0].pid
        for line in pathlib.Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines():
            if line.strip().startswith("lo:"):
                return int(line.split()[9])
        raise harness.Failed("no loopback interface")

    def ticks(self):
        """Of processors, used by all of them."""
        fields = (pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
                  .rpartition(")")[2].split() for process in self.processes)
        return sum(int(f[11]) + int(f[12]) for f in fields)

    def kib(self):
        """The largest resident set among them."""
        sizes = []
        for process in self.processes:
            text = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            sizes += [int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")]
        return max(sizes)


def measure_idle(bench, n):
    """Bytes and thousandths of a processor, of each psid and second; and the largest one."""
    seconds = 4 if bench.quick else 20
    with Lab(n) as lab:
        time.sleep(5)  # what there was to tell is told
        size, ticks, begin = lab.bytes_sent(), lab.ticks(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begin
        return ((lab.bytes_sent() - size) / passed / n,
                1000 * (lab.ticks() - ticks) / os.sysconf("SC_CLK_TCK") / passed / n, lab.kib())


@case("cluster-idle")
def cluster_idle(bench):
    """idle psids in clusters of 16 and of 128: traffic, processor and memory of each"""
    s = Series()
    for _ in list(bench.repetitions())[:1]:
        few = measure_idle(bench, 16)
        many = measure_idle(bench, 128)
        s.add(few=few[0], many=many[0], processor=many[1], size=many[2])
    return [report.at_most("cluster-idle/traffic", s["many"], s["few"], "B/s", 1.2, "16 psids"),
            report.below("cluster-idle/traffic-of-128", s["many"], [], "B/s", 1000),
            report.below("cluster-idle/processor", s["processor"], [], "m", 1),
            report.below("cluster-idle/memory", s["size"], [], "KiB", 8192)]


@case("cluster-spread")
def cluster_spread(bench):
    """1,000 tasks at once over 8 namespaces as nodes: how far the fullest and the emptiest are apart"""
    s = Series()
    for _ in list(bench.repetitions())[:1]:
        with Lab(8, apart=True) as lab:
            done = subprocess.run(
                lab.inside(harness.BUILD / "bin" / "pulcrun", "-n", 1000, "--oversubscribe",
                           "sh", "-c", "echo $PULC_NODE"),
                env=lab.environment(1), capture_output=True, text=True, timeout=300, check=True)
            each = collections.Counter(done.stdout.split()).values()
            s.add(spread=max(each) - min(each) if len(each) == 8 else 1000)
    return [report.below("cluster-spread", s["spread"], [], "tasks", 2)]


def msec_of(lab, *arguments):
    """How long a job takes that node 1 is asked for."""
    msec, code = harness.msec_of_run(lab.inside(harness.BUILD / "bin" / "pulcrun", "--oversubscribe", *arguments),
                                     SECONDS_MAX, env=lab.environment(1), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL)
    if code:
        raise harness.Failed(f"pulcrun ended with {code}")
    return msec


@case("cluster-start")
def cluster_start(bench):
    """start and end 64 times `true` over 8 namespaces as nodes, beside the same on one"""
    s = Series()
    with Lab(8, apart=True) as lab:
        for _ in bench.repetitions():
            s.add(many=min(msec_of(lab, "-n", 64, "--per-node", 8, "true") for _ in range(3)),
                  one=min(msec_of(lab, "-n", 64, "--nodes", "n1", "true") for _ in range(3)))
    return [report.at_most("cluster-start", s["many"], s["one"], "ms", 2, "one node")]


@case("cluster-death")
def cluster_death(bench):
    """one of 64 psids dies in silence: how long until the last of the others knows"""
    s = Series()
    for _ in list(bench.repetitions())[:3]:
        with Lab(64) as lab:
            time.sleep(5)  # what there was to tell is told
            lab.processes[-1].kill()
            begin = time.time()
            s.add(msec=max(lab.knows_dead_since(i, 64, begin) for i in range(1, 64)))
    return [report.below("cluster-death", s["msec"], [], "ms", 2000)]


@case("cluster-calm")
def cluster_calm(bench):
    """64 psids for ten minutes, all processors busy and a tenth of the datagrams lost: deaths that were none"""
    s = Series()
    seconds = 20 if bench.quick else 600
    if not shutil.which("nft"):
        raise harness.Failed("needs nft")
    with Lab(64) as lab:
        lab.lose(10)
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
        try:
            time.sleep(seconds)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        s.add(deaths=lab.deaths())
    return [report.below("cluster-calm", s["deaths"], [], "", 1)]


@case("cluster-kill")
def cluster_kill(bench):
    """pulcrun is killed, its job on 8 nodes has some 400 processes: how long until the last is gone"""
    mark = f"PULC_BENCH_KILL={os.getpid()}"
    script = "i=0; while [ $i -lt 50 ]; do setsid sleep 300 & i=$((i + 1)); done; echo ready; wait"

    def msec(lab):
        environment = dict(lab.environment(1), PULC_BENCH_KILL=mark.partition("=")[2])
        # Without `ip netns exec` in between: what is killed is pulcrun itself.
        process = subprocess.Popen(lab.inside("sh", "-c", 'echo $$; exec "$@"', "sh", harness.BUILD / "bin" / "pulcrun",
                                              "--oversubscribe", "-n", 8, "--per-node", 1, "sh", "-c", script),
                                   env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        pid = int(process.stdout.readline())
        for _ in range(8):
            process.stdout.readline()
        os.kill(pid, signal.SIGKILL)
        return harness.msec_until_gone(process, mark, SECONDS_MAX)

    s = Series()
    with Lab(8, apart=True) as lab:
        for _ in bench.repetitions():
            s.add(pulc=msec(lab))
    return [report.below("cluster-kill", s["pulc"], [], "ms", 1000)]
