"""The cases of ports and tags: programs written to pulc/pulc.h and pulc/tag.h, beside the same exchange over sockets."""

import os
import subprocess

import harness
import peers
import report
from cases import Series, case
from rounds import Round


@case("native-pingpong")
def native_pingpong(bench):
    """8 B one way between two ports, kinds D and S, and with a tag (T), beside sockets on the kernel and under PULC"""
    s = Series()
    options = ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for _ in bench.repetitions():
        for mode in ("spin", "blocking"):
            line = bench.program("pingpong", "--mode", mode, *options)[0]
            s.add(**{mode: line["one_way_ns"]})
        shim = s.add_on_rings(bench, "pingpong", "--mode", "blocking", *options)[0]
        s.add(shim=shim["one_way_ns"])
        for kind in ("D", "S", "T"):
            line = bench.program("native", "--kind", kind, *options, *bench.rounds())[0]
            s.add(**{kind: line["one_way_ns"]})
            s.add_rounds(**{kind: line})
    rows = []
    for kind, limit in (("D", 2.0), ("S", 2.0), ("T", 1.6)):
        name = f"native-pingpong/{kind}"
        rows += [*report.by_placement(report.at_most, f"{name}/floor", s.rounds[kind], Round.line, "ns", limit, "floor"),
                 report.inform(f"{name}/spin", s[kind], s["spin"], "ns", "kernel, spinning"),
                 report.inform(f"{name}/kernel", s[kind], s["blocking"], "ns", "kernel, blocking"),
                 report.inform(f"{name}/shim", s[kind], s["shim"], "ns", "socket on rings")]
    return rows


@case("native-rate")
def native_rate(bench):
    """messages of 8 B a second, one pair, to ports D and S and with a tag (T), beside UCX where it is installed"""
    s = Series()
    options = ("--rate", "--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for _ in bench.repetitions():
        for kind in ("D", "S", "T"):
            line = bench.program("native", "--kind", kind, *options, *bench.rounds())[0]
            s.add(**{kind: line["mps"]})
            s.add_rounds(**{kind: line})
        for kind in ("tag", "stream"):
            try:
                s.add(**{kind: peers.ucx_rate(bench, kind)})
            except harness.Failed:
                pass  # a guest that is not installed, or does not run here, is no failure of ours
    seen = [row for kind in ("D", "S", "T")
            for row in report.by_placement(report.beside, f"native-rate/{kind}/line", s.rounds[kind], Round.line, "M/s",
                                           "a line's way, ns")]
    return [report.above("native-rate/D", s["D"], s.get("tag", []), "M/s", 25),
            report.above("native-rate/S", s["S"], s.get("stream", []), "M/s", 40),
            report.inform("native-rate/T", s["T"], s.get("tag", []), "M/s", "UCX, tags"), *seen]


@case("native-death")
def native_death(bench):
    """a sender is killed: until its receiver has the error, the receiver's use of a processor afterwards, ports that are left"""
    s = Series()
    for _ in bench.repetitions(3):
        line = bench.program("survivor", "--idle-msec", bench.msec(600), cpus=False)[0]
        s.add(error=line["error_usec"], p90=line["p90_usec"], idle=line["idle_cpu_percent"],
              left=len(bench.psid.ask("ports")))
    return [report.below("native-death/error", s["error"], [], "us", 1000),
            report.inform("native-death/error-p90", s["p90"], s["error"], "us", "the median"),
            report.below("native-death/cpu", s["idle"], [], "%", 1),
            report.below("native-death/ports-left", s["left"], [], "", 1)]


@case("native-bandwidth")
def native_bandwidth(bench):
    """messages of 64 KiB and 1 MiB one way to a port D, and with a tag, four under way, beside sockets"""
    rows = []
    options = ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for name, size, limit in (("64KiB", 64 << 10, 0.45), ("1MiB", 1 << 20, 0.40)):
        s = Series()
        sized = ("--size", str(size), *options)
        for _ in bench.repetitions(3):
            lines = {way: bench.program("native", "--bandwidth", "--kind", kind, *sized, *bench.rounds(10))[0]
                     for way, kind in (("pulc", "D"), ("tags", "T"))}
            s.add_rounds(**lines)
            s.add(kernel=bench.program("stream", *sized)[0]["gbs"],
                  shim=s.add_on_rings(bench, "stream", *sized)[0]["gbs"], pulc=lines["pulc"]["gbs"])
        case_name = f"native-bandwidth/{name}"
        rows += [
            *report.by_placement(report.at_least, f"{case_name}/memcpy", s.rounds["pulc"], Round.copy, "GB/s", limit, "memcpy"),
            *report.by_placement(report.at_least, f"{case_name}/tags", s.rounds["tags"], Round.copy, "GB/s", limit, "memcpy"),
            report.inform(f"{case_name}/kernel", s["pulc"], s["kernel"], "GB/s", "kernel"),
            report.inform(f"{case_name}/shim", s["pulc"], s["shim"], "GB/s", "socket on rings")]
    return rows


@case("block-bandwidth")
def block_bandwidth(bench):
    """messages of 1 MiB that nobody copies and their receiver reads: not built anew, built past the caches, built with ordinary stores"""
    s = Series()
    options = ("--size", str(1 << 20), "--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    for _ in bench.repetitions(3):
        s.add_rounds(**{build: bench.program("block", "--build", build, *options, *bench.rounds(10))[0]
                        for build in ("none", "past", "ordinary")})
    goals = {"none": (report.at_least, 0.85), "past": (report.inform,), "ordinary": (report.inform,)}
    return [row for build, (judge, *limit) in goals.items()
            for row in report.by_placement(judge, f"block-bandwidth/{build}", s.rounds[build], Round.copy, "GB/s", *limit, "memcpy")]


@case("overlap")
def overlap(bench):
    """sends of 1 MiB that a computation as long stands in the middle of: how much of the shorter one is hidden"""
    s = Series()
    for _ in bench.repetitions(3):
        for name, flags in (("tags", ("--thread",)), ("alone", ()), ("port", ("--port", "--thread"))):
            line = bench.program("overlap", *flags, "--msec", bench.msec(300))[0]
            s.add(**{name: line["hidden_percent"]})
    return [report.above("overlap/tags", s["tags"], s["alone"], "%", 90),
            report.inform("overlap/port", s["port"], s["tags"], "%", "with tags")]


class Cable:
    """Two network namespaces with a cable between them."""

    def __init__(self):
        self.names = [f"pulc-link-{os.getpid()}-{end}" for end in (1, 2)]

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def __enter__(self):
        one, two = self.names
        try:
            for name in self.names:
                self.ip("netns", "add", name)
            self.ip("-n", one, "link", "add", "cable", "type", "veth", "peer", "name", "cable",
                    "netns", two)
            for number, name in enumerate(self.names, 1):
                self.ip("-n", name, "address", "add", f"10.99.0.{number}/24", "dev", "cable")
                self.ip("-n", name, "link", "set", "cable", "up")
        except (OSError, subprocess.CalledProcessError) as failure:
            self.__exit__()
            raise harness.Failed(f"no network namespaces: {failure}") from failure
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    def options(self):
        return ("--address", "10.99.0.1", "--server-netns", f"/run/netns/{self.names[0]}",
                "--client-netns", f"/run/netns/{self.names[1]}")


@case("hal-tcp")
def hal_tcp(bench):
    """8 B and 1 MiB over HAL tcp between two network namespaces, beside plain sockets; 64 connections; asleep"""
    options = ("--msec", bench.msec(300), "--warmup-msec", bench.msec(300))
    one_way = {name: Series() for name in ("8B", "64-links", "asleep")}
    rate = Series()
    flags_of = {"8B": (), "64-links": ("--links", "64", "--batch", "1"), "asleep": ("--sleep",)}
    mib = ("--size", str(1 << 20), "--bandwidth")
    with Cable() as cable:
        options += cable.options()
        for _ in bench.repetitions(3):
            for way, flags in (("sockets", ("--sockets",)), ("hal", ()), ("uring", ("--uring",))):
                for name, series in one_way.items():
                    line = bench.program("link", *flags, *flags_of[name], *options)[0]
                    series.add(**{way: line["one_way_ns"]})
                line = bench.program("link", *flags, *mib, *options)[0]
                rate.add(**{way: line["gbs"]})
    short = one_way["8B"]
    results = [report.at_most("hal-tcp/8B", short["hal"], short["sockets"], "ns", 1.0, "sockets"),
               report.inform("hal-tcp/8B/uring", short["uring"], short["sockets"], "ns", "sockets"),
               report.at_least("hal-tcp/1MiB", rate["hal"], rate["sockets"], "GB/s", 1.0, "sockets"),
               report.inform("hal-tcp/1MiB/uring", rate["uring"], rate["sockets"], "GB/s", "sockets")]
    for name in ("64-links", "asleep"):
        for way, suffix in (("hal", ""), ("uring", "/uring")):
            results.append(report.inform(f"hal-tcp/{name}{suffix}", one_way[name][way],
                                         one_way[name]["sockets"], "ns", "sockets"))
    return results
