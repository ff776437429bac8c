"""The cases, in the order in which they run. Each is a function of the bench that returns rows.

Within a repetition the kernel twin and PULC follow each other. The first line of each
docstring is what `bench/run --list` shows.
"""

import json
import os
import time

import harness
import report
from rounds import Round, between, parse

CASES = {}


def case(name):
    def register(function):
        CASES[name] = function
        return function
    return register


class Series(dict):
    """Figures by name, one of each repetition, and what was said about rings."""

    def __init__(self):
        super().__init__()
        self.note = ""
        self.rounds = {}

    def add_rounds(self, **lines):
        """By name, what a program said that measured the floor between its rounds."""
        for name, figures in lines.items():
            self.rounds.setdefault(name, []).extend(parse(figures))

    def add(self, **figures):
        for name, value in figures.items():
            self.setdefault(name, []).append(value)

    def add_on_rings(self, bench, program, *options, **how):
        """Runs a program under PULC. Returns its lines; remembers if it was not on rings."""
        lines, note = bench.on_rings(program, *options, **how)
        self.note = self.note or note
        return lines

    def judge(self, *rows):
        return report.apply_note(list(rows), self.note)


def pingpong(bench, series, kernel_mode, pulc_mode, *options, with_floor=True):
    """One repetition of a ping-pong on each path; the kernel's figures are named after its mode."""
    options += ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    kernel = bench.program("pingpong", "--mode", kernel_mode, *options)
    series.add(**{kernel_mode: kernel[0]["one_way_ns"]})
    if pulc_mode:
        floors = bench.rounds() if with_floor else ()
        pulc = series.add_on_rings(bench, "pingpong", "--mode", pulc_mode, *options, *floors)
        series.add(pulc=pulc[0]["one_way_ns"])
        if with_floor:
            series.add_rounds(pulc=pulc[0])


@case("pingpong-blocking")
def pingpong_blocking(bench):
    """8 B one way, blocking send and recv, two cores"""
    s = Series()
    for _ in bench.repetitions():
        pingpong(bench, s, "spin", "blocking")
        pingpong(bench, s, "blocking", None)
    name = "pingpong-blocking"
    return s.judge(
        *report.by_placement(report.at_most, f"{name}/floor", s.rounds["pulc"], Round.line, "ns", 2.5, "floor"),
        report.faster(f"{name}/spin", s["pulc"], s["spin"], "ns", 30, "kernel, spinning"),
        report.inform(f"{name}/kernel", s["pulc"], s["blocking"], "ns", "kernel, blocking"))


def pingpong_waiting(bench, mode):
    s = Series()
    for _ in bench.repetitions():
        pingpong(bench, s, mode, mode)
    name = f"pingpong-{mode}"
    return s.judge(
        *report.by_placement(report.at_most, f"{name}/floor", s.rounds["pulc"], Round.line, "ns", 4, "floor"),
        report.inform(f"{name}/kernel", s["pulc"], s[mode], "ns", f"kernel, {mode}"))


@case("pingpong-epoll")
def pingpong_epoll(bench):
    """8 B one way, through epoll on both sides, two cores"""
    return pingpong_waiting(bench, "epoll")


@case("pingpong-poll")
def pingpong_poll(bench):
    """8 B one way, through poll on both sides, two cores"""
    return pingpong_waiting(bench, "poll")


@case("pingpong-onecore")
def pingpong_onecore(bench):
    """8 B one way, blocking send and recv, both processes on one core"""
    s = Series()
    core = str(bench.machine.server)
    for _ in bench.repetitions():
        pingpong(bench, s, "blocking", "blocking", "--server-cpu", core, "--client-cpu", core,
                 with_floor=False)
    return s.judge(
        report.at_most("pingpong-onecore", s["pulc"], s["blocking"], "ns", 0.7, "kernel"))


@case("sleeper")
def sleeper(bench):
    """one message a millisecond to a receiver that sleeps; use of processors"""
    s = Series()
    options = ("--messages", bench.msec(600), "--idle-msec", bench.msec(600))
    for _ in bench.repetitions():
        kernel = bench.program("wake", *options, n_lines=2)
        pulc = s.add_on_rings(bench, "wake", *options, n_lines=2)
        for path, lines in (("kernel", kernel), ("pulc", pulc)):
            receiver = next(line for line in lines if line["side"] == "receiver")
            s.add(**{f"{path}_wake": receiver["wake_usec"],
                     f"{path}_cpu": max(line["cpu_percent"] for line in lines),
                     f"{path}_idle": max(line["idle_cpu_percent"] for line in lines)})
    return s.judge(
        report.at_most("sleeper/wake", s["pulc_wake"], s["kernel_wake"], "us", 0.75, "kernel"),
        report.below("sleeper/cpu-idle", s["pulc_idle"], s["kernel_idle"], "%", 1),
        report.inform("sleeper/cpu-busy", s["pulc_cpu"], s["kernel_cpu"], "%", "kernel"))


@case("lock-priority")
def lock_priority(bench):
    """a waiter for a lock of a family whose holder, of low priority, shares its processor with a spinner"""
    s = Series()
    for _ in bench.repetitions(3):
        for line in bench.program("lock", "--cpu", str(bench.machine.server), n_lines=3, cpus=False):
            for waiter in ("ordinary", "realtime"):
                s.add(**{f"{line['lock']}_{waiter}": line[f"{waiter}_usec"]})
    return [
        report.at_most("lock-priority/realtime", s["pulc_realtime"], s["mutex_realtime"], "us", 0.5,
                       "libc's robust mutex"),
        report.inform("lock-priority/realtime-pi", s["pulc_realtime"], s["mutex-pi_realtime"], "us",
                      "libc's with inheritance"),
        report.inform("lock-priority/ordinary", s["pulc_ordinary"], s["mutex-pi_ordinary"], "us",
                      "libc's with inheritance")]


@case("messages")
def messages(bench):
    """8 B messages a second, one way; and the bandwidth of 128 KiB writes"""
    s = Series()
    window = ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for _ in bench.repetitions():
        for size, figure in (("8", "messages_per_usec"), ("131072", "gbs")):
            options = ("--size", size, *window)
            s.add(**{f"kernel_{size}": bench.program("stream", *options)[0][figure]})
            s.add(**{f"pulc_{size}": s.add_on_rings(bench, "stream", *options)[0][figure]})
    large = s["pulc_131072"], s["kernel_131072"]
    return s.judge(report.above("messages/8B", s["pulc_8"], s["kernel_8"], "M/s", 25),
                   report.inform("messages/128KiB", *large, "GB/s", "kernel"))


@case("udp-pingpong")
def udp_pingpong(bench):
    """a datagram of 8 B one way, blocking send and recv, two cores"""
    s = Series()
    options = ("--udp", "--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for _ in bench.repetitions():
        for mode in ("spin", "blocking"):
            s.add(**{mode: bench.program("pingpong", "--mode", mode, *options)[0]["one_way_ns"]})
        # A flow in each direction.
        pulc = s.add_on_rings(bench, "pingpong", *options, *bench.rounds(), n_ends=4)[0]
        s.add(pulc=pulc["one_way_ns"])
        s.add_rounds(pulc=pulc)
    name = "udp-pingpong"
    return s.judge(
        *report.by_placement(report.at_most, f"{name}/floor", s.rounds["pulc"], Round.line, "ns", 3, "floor"),
        report.faster(f"{name}/spin", s["pulc"], s["spin"], "ns", 15, "kernel, spinning"),
        report.inform(f"{name}/kernel", s["pulc"], s["blocking"], "ns", "kernel, blocking"))


@case("udp-messages")
def udp_messages(bench):
    """datagrams of 8 B a second that arrive, one way"""
    s = Series()
    options = ("--udp", "--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for _ in bench.repetitions():
        kernel = bench.program("stream", *options)
        pulc = s.add_on_rings(bench, "stream", *options)
        s.add(kernel=kernel[0]["messages_per_usec"], pulc=pulc[0]["messages_per_usec"])
    return s.judge(report.above("udp-messages/8B", s["pulc"], s["kernel"], "M/s", 10))


def iperf3_once(bench, pulc, options):
    """Returns GB/s and whether the data went over rings."""
    port = harness.free_port()
    seconds = 1 if bench.quick else 2
    command = [harness.tool("iperf3"), "-p", str(port)]
    server = bench.server([*command, "-s", "-1"], port, pulc)
    try:
        command += ["-c", "127.0.0.1", "-J", "-t", str(seconds), *options]
        client = bench.client(command, pulc)
        time.sleep(seconds / 2)
        ringed = pulc and bench.psid.ends_on_rings(server.pid, size_least=1 << 20) > 0
        said = harness.output_of(client)
    finally:
        harness.stop(server)
    return json.loads(said)["end"]["sum_received"]["bits_per_second"] / 8e9, ringed


@case("iperf3")
def iperf3(bench):
    """iperf3 with its defaults, and with writes of 1 MiB"""
    rows = []
    for name, options in (("default", ()), ("1M", ("-l", "1M"))):
        s = Series()
        around = []
        for _ in bench.repetitions(3):
            s.add(kernel=iperf3_once(bench, False, options)[0])
            before = bench.floor()
            pulc, ringed = iperf3_once(bench, True, options)
            around.append(between(before, pulc, bench.floor(), "memcpy_64k_gbs"))
            s.add(pulc=pulc)
            s.note = s.note or ("" if ringed else "not over rings")
        name = f"iperf3/{name}"
        rows += s.judge(
            report.at_least(name, s["pulc"], s["kernel"], "GB/s", 4, "kernel"),
            *report.by_placement(report.at_least, f"{name}/memcpy", around, Round.copy, "GB/s", 0.35, "memcpy"))
    return rows


def redis_once(bench, pulc, n_clients=50, tests="set,get", alone=False):
    """Returns {test: requests a second} and the number of upgrades. alone: the client is outside of PULC."""
    port = str(harness.free_port())
    n = str((800 if bench.quick else 3000) * max(n_clients, 5))
    # One that may use one processor only does not look before it sleeps.
    both = [harness.tool("taskset"), "-c", f"{bench.machine.server},{bench.machine.client}"] if alone else []
    server = bench.server([*both, harness.tool("redis-server"), "--port", port, "--bind", "127.0.0.1",
                           "--save", "", "--appendonly", "no"], int(port), pulc)
    client = [harness.tool("redis-benchmark"), "-p", port, "-c", str(n_clients), "-n", n, "-t", tests,
              "--csv"]
    before = bench.psid.n_upgrades()
    try:
        said = harness.output_of(bench.client(client, pulc and not alone))
    finally:
        harness.stop(server)
    fields = [line.replace('"', "").split(",") for line in said.splitlines()]
    rates = {f[0]: float(f[1]) / 1000 for f in fields if f[0] in ("SET", "GET")}
    return rates, bench.psid.n_upgrades() - before


@case("redis")
def redis(bench):
    """redis-benchmark SET and GET, 50 clients, no pipeline"""
    s = Series()
    for _ in bench.repetitions(3):
        s.add(**{f"kernel_{test}": rate for test, rate in redis_once(bench, False)[0].items()})
        rates, n_upgrades = redis_once(bench, True)
        s.add(**{f"pulc_{test}": rate for test, rate in rates.items()})
        if n_upgrades < 100:  # 50 connections for each test
            s.note = f"not over rings: {n_upgrades} of 100 connections were upgraded"
    return s.judge(*(report.at_least(f"redis/{test}", s[f"pulc_{test}"], s[f"kernel_{test}"],
                                     "k/s", 2.5, "kernel") for test in ("SET", "GET")))


@case("redis-outside")
def redis_outside(bench):
    """redis-benchmark GET outside of PULC, one client: the server's loop looks before it sleeps in the kernel"""
    s = Series()
    for _ in bench.repetitions(3):
        for path in ("kernel", "pulc"):
            rates, _ = redis_once(bench, path == "pulc", 1, "get", alone=True)
            s.add(**{path: rates["GET"]})
    return s.judge(report.at_least("redis-outside", s["pulc"], s["kernel"], "k/s", 1, "kernel"))


@case("connects")
def connects(bench):
    """connect, one request of 64 B, close: connections a second"""
    s = Series()
    options = ("--connections", "2000" if bench.quick else "8000")
    for _ in bench.repetitions():
        for path in ("kernel", "pulc"):
            line = bench.program("connects", *options, pulc=path == "pulc")[0]
            s.add(**{path: line["per_second"] / 1000})
    return s.judge(report.at_least("connects", s["pulc"], s["kernel"], "k/s", 0.95, "kernel"))


@case("servers")
def servers(bench):
    """servers that fork for each connection or were forked before: connections a second"""
    s = Series()
    kinds = {"fork": ("1", "100"), "prefork": ("1", "100")}
    for _ in bench.repetitions():
        for kind, requests in ((kind, n) for kind, counts in kinds.items() for n in counts):
            n = (400 if bench.quick else 2000) // (4 if requests != "1" else 1)
            options = ("--server", kind, "--requests", requests, "--connections", str(n))
            for path in ("kernel", "pulc"):
                line = bench.program("connects", *options, pulc=path == "pulc")[0]
                s.add(**{f"{path}_{kind}_{requests}": line["per_second"] / 1000})
    return s.judge(*(report.at_least(f"servers/{kind}-{n}", s[f"pulc_{kind}_{n}"], s[f"kernel_{kind}_{n}"],
                                     "k/s", 1, "kernel") for kind, counts in kinds.items() for n in counts))


@case("idle")
def idle(bench):
    """10,000 idle connections between two processes: memory, mappings, fork, processor"""
    s = Series()
    n = 1000 if bench.quick else 10000
    options = ("--connections", str(n), "--idle-msec", bench.msec(1000))
    for _ in bench.repetitions(1):
        kernel = bench.program("idle", *options, n_lines=2)
        pulc = s.add_on_rings(bench, "idle", *options, n_lines=2, n_ends=2 * n)
        for path, lines in (("kernel", kernel), ("pulc", pulc)):
            s.add(**{f"{path}_{name}": max(line[name] for line in lines)
                     for name in lines[0] if name != "side"})

    def both(name):
        return s[f"pulc_{name}"], s[f"kernel_{name}"]

    return s.judge(report.below("idle/resident", *both("resident_kib"), "KiB", 20),
                   report.inform("idle/page-tables", *both("page_tables_kib"), "KiB", "kernel"),
                   report.below("idle/mappings", *both("mappings"), "mappings", 1000),
                   report.at_most("idle/fork", *both("fork_usec"), "us", 2, "kernel"),
                   report.below("idle/cpu", *both("idle_cpu_percent"), "%", 0.1))


def spawn_msec(command, env):
    """How long a program takes from its start to its end."""
    silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (1, 2)]
    before = time.monotonic_ns()
    pid = os.posix_spawn(command[0], command, env, file_actions=silent)
    os.waitpid(pid, 0)
    return (time.monotonic_ns() - before) / 1e6


@case("startup")
def startup(bench):
    """what the preload adds to the start of programs that use no sockets"""
    rows = []
    n = 20 if bench.quick else 100
    for command in (["true"], ["ls"], ["tar", "--version"]):
        command = [harness.tool(command[0]), *command[1:]]
        s = Series()
        for _ in bench.repetitions(1):
            for _ in range(n):  # one by one, so that both see the same machine
                kernel = spawn_msec(command, bench.environment(False))
                pulc = spawn_msec(command, bench.environment(True))
                s.add(kernel=kernel, added=pulc - kernel)
        name = os.path.basename(command[0])
        rows.append(report.below(f"startup/{name}", s["added"], s["kernel"], "ms", 2))
        rows[-1].ratio = None  # added time, beside the whole time without PULC
    return rows


@case("files")
def files(bench):
    """read and write of 4 KiB on a file in the page cache"""
    s = Series()
    options = ("--cpu", str(bench.machine.client), "--msec", bench.msec(60))
    for _ in bench.repetitions(15):
        for path in ("kernel", "pulc"):
            line = bench.program("files", *options, pulc=path == "pulc", cpus=False)[0]
            s.add(**{f"{path}_read": line["read_ns"], f"{path}_write": line["write_ns"]})
    return s.judge(*(report.at_most(f"files/{call}", s[f"pulc_{call}"], s[f"kernel_{call}"],
                                    "ns", 1.02, "kernel") for call in ("read", "write")))
