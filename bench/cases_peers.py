"""The cases beside other message layers for programs that are written to them: UCX, libfabric, Open MPI and MPICH (peers.py)."""

import harness
import peers
import report
from cases import Series, case

SIZES = {"64KiB": 64 << 10, "1MiB": 1 << 20}
N_CROWD = 8
N_ROUNDS_MPI = 3  # each message of theirs may cost a turn of the scheduler


class Guests:
    """Figures of others, as far as they can be had; who cannot be measured is left out from then on, and that is said."""

    def __init__(self, bench, series):
        self.bench = bench
        self.series = series
        self.absent = {}

    def add(self, name, measure, *arguments):
        if name in self.absent:
            return
        try:
            self.series.add(**{name: measure(self.bench, *arguments)})
        except harness.Failed as failure:
            self.absent[name] = str(failure).splitlines()[0]

    def rows(self, judge, case_name, ours, unit, goals):
        """goals: of a guest's figure, what it is called and the rest of the judge's arguments."""
        return [judge(f"{case_name}/{name}", ours, self.series[name], unit, *goal)
                for name, goal in goals.items() if name in self.series]

    def say_absent(self, case_name):
        if self.absent:
            self.bench.tables.append("\n".join(f"{case_name}: without {name}: {why}" for name, why in self.absent.items()))


def native(bench, *options):
    return bench.program("native", *options, "--msec", bench.msec(300), "--warmup-msec", bench.msec(300))[0]


@case("peers")
def one_way_beside_peers(bench):
    """8 B one way with a tag (T) and to ports D and S, in turn with UCX, libfabric, Open MPI and MPICH"""
    s = Series()
    guests = Guests(bench, s)
    for _ in bench.repetitions():
        for kind in ("T", "D", "S"):
            s.add(**{kind: native(bench, "--kind", kind)["one_way_ns"]})
            guests.add("ucx-tag", peers.ucx_nsec, "tag")
            if kind == "S":
                guests.add("ucx-stream", peers.ucx_nsec, "stream")
        guests.add("libfabric", peers.fabric_nsec)
        for name in peers.MPI_SHARED:
            guests.add(name, peers.mpi_nsec, name)
    guests.say_absent("peers")
    rows = []
    for kind in ("T", "D", "S"):
        # UCX's tags had a turn behind each of ours.
        at = "TDS".index(kind)
        turns = {**s, "ucx-tag": s.get("ucx-tag", [])[at::3]}
        for name in ("ucx-tag", "ucx-stream", "libfabric", *peers.MPI_SHARED):
            limit = 0.5 if (kind, name) == ("T", "ucx-tag") else 1.0
            judged = name == "ucx-tag" or (name == "ucx-stream" and kind != "T")
            if name in s:
                rows.append(report.at_most(f"peers/8B/{kind}/{name}", s[kind], turns[name], "ns", limit, name) if judged else
                            report.inform(f"peers/8B/{kind}/{name}", s[kind], turns[name], "ns", name))
    return rows


@case("peers-bandwidth")
def bandwidth_beside_peers(bench):
    """messages of 64 KiB and 1 MiB one way to a port D, in turn with UCX, libfabric, Open MPI and MPICH, each by its best way"""
    rows = []
    for name, size in SIZES.items():
        s = Series()
        guests = Guests(bench, s)
        for _ in bench.repetitions(3):
            s.add(pulc=native(bench, "--bandwidth", "--kind", "D", "--size", str(size))["gbs"])
            guests.add("ucx", peers.ucx_gbs, size)
            guests.add("libfabric", peers.fabric_gbs, size)
            for mpi in peers.MPI_SHARED:
                guests.add(mpi, peers.mpi_gbs, mpi, size)
        guests.say_absent(f"peers-bandwidth/{name}")
        rows += guests.rows(report.at_least, f"peers-bandwidth/{name}", s["pulc"], "GB/s",
                            {guest: (1.0, guest) for guest in ("ucx", "libfabric", *peers.MPI_SHARED)})
    return rows


@case("peers-rate")
def rate_beside_peers(bench):
    """messages of 8 B a second to ports D and S and with a tag (T), in turn with UCX, Open MPI and MPICH"""
    s = Series()
    guests = Guests(bench, s)
    for _ in bench.repetitions(3):
        for kind in ("D", "S", "T"):
            s.add(**{kind: native(bench, "--rate", "--kind", kind)["mps"]})
        for kind in ("tag", "stream"):
            guests.add(f"ucx-{kind}", peers.ucx_rate, kind)
        for mpi in peers.MPI_SHARED:
            guests.add(mpi, peers.mpi_rate, mpi)
    guests.say_absent("peers-rate")
    return [row for kind in ("D", "S", "T")
            for row in guests.rows(report.inform, f"peers-rate/{kind}", s[kind], "M/s",
                                   {name: (name,) for name in ("ucx-tag", "ucx-stream", *peers.MPI_SHARED)})]


def ucx_crowded_nsec(bench):
    """Two processes on one core: it has nothing for more."""
    core = bench.machine.server
    return float(peers.ucx(bench, "tag_lat", 8, 100, cpus=(core, core))[2]) * 1000


def mpi_crowded_nsec(bench, name):
    core = bench.machine.server
    return peers.mpi(bench, name, "crowd", N_ROUNDS_MPI, n=N_CROWD, cpus=(core, core))


@case("crowd")
def crowd(bench):
    """8 processes on one core, each sends 8 B to each other one: time for each message beside a hand-over by futex on that core"""
    s = Series()
    guests = Guests(bench, s)
    options = ("--cpu", str(bench.machine.server), "--processes", str(N_CROWD), "--msec", bench.msec(300))
    for _ in bench.repetitions():
        for name, flags in (("ports", ()), ("tags", ("--tags",)), ("pairs", ("--pairs",))):
            line = bench.program("crowd", *options, *flags, cpus=False)[0]
            s.add(**{name: line["message_ns"], f"{name}_futex": line["futex_ns"], f"{name}_switches": line["switches"]})
    for _ in bench.repetitions(1):
        guests.add("ucx", ucx_crowded_nsec)
        for mpi in peers.MPI_SHARED:
            guests.add(mpi, mpi_crowded_nsec, mpi)
    guests.say_absent("crowd")
    rows = [report.at_most(f"crowd/{name}", s[name], s[f"{name}_futex"], "ns", 2.0, "futex hand-over") for name in ("ports", "tags")]
    rows.append(report.inform("crowd/pairs", s["pairs"], s["pairs_futex"], "ns", "futex hand-over"))
    rows += [report.beside(f"crowd/{name}-switches", s[f"{name}_switches"], [], "", "none; how often a message has the processor given up")
             for name in ("ports", "tags", "pairs")]
    return rows + [report.inform(f"crowd/{name}", s["ports"][:1], s[name], "ns", name) for name in ("ucx", *peers.MPI_SHARED) if name in s]
