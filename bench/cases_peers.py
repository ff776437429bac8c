"""The cases beside other message layers for programs that are written to them: UCX, libfabric, Open MPI and MPICH (peers.py)."""

import harness
import peers
import report
from cases import Series, case
from rounds import between, in_common

SIZES = {"64KiB": 64 << 10, "1MiB": 1 << 20}
N_CROWD = 8
N_TURNS = 9  # short ones: a machine whose processors move is seen in several placements
N_TURNS_QUICK = 3
N_ROUNDS_MPI = 3  # each message of theirs may cost a turn of the scheduler


class Turns:
    """Figures of ours and of others in turn, each a round with the floor before and after it; who cannot be measured is left out from then on, and that is said."""

    def __init__(self, bench):
        self.bench = bench
        self.rounds = {}
        self.absent = {}
        self.floor = bench.floor()

    def add(self, name, measure, *arguments):
        if name in self.absent:
            return
        try:
            figure = measure(self.bench, *arguments)
        except harness.Failed as failure:
            self.absent[name] = str(failure).splitlines()[0]
            return
        before, self.floor = self.floor, self.bench.floor()
        self.rounds.setdefault(name, []).append(between(before, figure, self.floor))

    def counted(self, ours):
        """As many as are usual, and up to as many again while one of ours and one of theirs have not been seen in the same placement."""
        yield from self.bench.repetitions(N_TURNS, N_TURNS_QUICK)
        if self.has_all_in_common(ours):
            return
        for calibration in self.bench.repetitions(N_TURNS, N_TURNS_QUICK):
            yield calibration
            if self.has_all_in_common(ours):
                return

    def has_all_in_common(self, ours):
        return all(in_common(self.rounds[mine], self.rounds[name])[0]
                   for mine in ours if mine in self.rounds for name in self.rounds if name not in ours)

    def figures(self, name):
        return [r.figure for r in self.rounds[name]]

    def rows(self, case_name, ours, unit, goals):
        """goals: for a guest's figure, the judge and the rest of its arguments."""
        return [row for name, (judge, *goal) in goals.items() if name in self.rounds
                for row in report.by_common_placement(judge, f"{case_name}/{name}", self.rounds[ours], self.rounds[name], unit, *goal)]

    def say_absent(self, case_name):
        if self.absent:
            self.bench.tables.append("\n".join(f"{case_name}: without {name}: {why}" for name, why in self.absent.items()))


def native(bench, figure, *options):
    return bench.program("native", *options, "--msec", bench.msec(150), "--warmup-msec", bench.msec(150))[0][figure]


@case("peers")
def one_way_beside_peers(bench):
    """8 B one way with a tag (T) and to ports D and S, in turn with UCX, libfabric, Open MPI and MPICH"""
    turns = Turns(bench)
    for _ in turns.counted(("T", "D", "S")):
        for kind in ("T", "D", "S"):
            turns.add(kind, native, "one_way_ns", "--kind", kind)
            turns.add("ucx-tag" if kind != "S" else "ucx-stream", peers.ucx_nsec, "tag" if kind != "S" else "stream")
        turns.add("libfabric", peers.fabric_nsec)
        for name in peers.MPI_SHARED:
            turns.add(name, peers.mpi_nsec, name)
    turns.say_absent("peers")
    rows = []
    for kind in ("T", "D", "S"):
        judged = {"ucx-tag": 0.5} if kind == "T" else {"ucx-tag": 1.0, "ucx-stream": 1.0}
        rows += turns.rows(f"peers/8B/{kind}", kind, "ns",
                           {name: (report.at_most, judged[name], name) if name in judged else (report.inform, name)
                            for name in ("ucx-tag", "ucx-stream", "libfabric", *peers.MPI_SHARED)})
    return rows


@case("peers-bandwidth")
def bandwidth_beside_peers(bench):
    """messages of 64 KiB and 1 MiB one way to a port D, in turn with UCX, libfabric, Open MPI and MPICH, each by its best way"""
    rows = []
    for name, size in SIZES.items():
        turns = Turns(bench)
        for _ in turns.counted(("pulc",)):
            turns.add("pulc", native, "gbs", "--bandwidth", "--kind", "D", "--size", str(size))
            turns.add("ucx", peers.ucx_gbs, size)
            turns.add("libfabric", peers.fabric_gbs, size)
            for mpi in peers.MPI_SHARED:
                turns.add(mpi, peers.mpi_gbs, mpi, size)
        turns.say_absent(f"peers-bandwidth/{name}")
        rows += turns.rows(f"peers-bandwidth/{name}", "pulc", "GB/s",
                           {guest: (report.at_least, 1.0, guest) for guest in ("ucx", "libfabric", *peers.MPI_SHARED)})
    return rows


@case("peers-rate")
def rate_beside_peers(bench):
    """messages of 8 B a second to ports D and S and with a tag (T), in turn with UCX, Open MPI and MPICH"""
    turns = Turns(bench)
    for _ in turns.counted(("D", "S", "T")):
        for kind in ("D", "S", "T"):
            turns.add(kind, native, "mps", "--rate", "--kind", kind)
        for kind in ("tag", "stream"):
            turns.add(f"ucx-{kind}", peers.ucx_rate, kind)
        for mpi in peers.MPI_SHARED:
            turns.add(mpi, peers.mpi_rate, mpi)
    turns.say_absent("peers-rate")
    return [row for kind in ("D", "S", "T")
            for row in turns.rows(f"peers-rate/{kind}", kind, "M/s",
                                  {name: (report.inform, name) for name in ("ucx-tag", "ucx-stream", *peers.MPI_SHARED)})]


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
    turns = Turns(bench)
    options = ("--cpu", str(bench.machine.server), "--processes", str(N_CROWD), "--msec", bench.msec(300))
    for _ in bench.repetitions():
        for name, flags in (("ports", ()), ("tags", ("--tags",)), ("pairs", ("--pairs",))):
            line = bench.program("crowd", *options, *flags, cpus=False)[0]
            s.add(**{name: line["message_ns"], f"{name}_futex": line["futex_ns"], f"{name}_switches": line["switches"]})
    for _ in bench.repetitions(1):
        turns.add("ucx", ucx_crowded_nsec)
        for mpi in peers.MPI_SHARED:
            turns.add(mpi, mpi_crowded_nsec, mpi)
    turns.say_absent("crowd")
    rows = [report.at_most(f"crowd/{name}", s[name], s[f"{name}_futex"], "ns", 2.0, "futex hand-over") for name in ("ports", "tags")]
    rows.append(report.inform("crowd/pairs", s["pairs"], s["pairs_futex"], "ns", "futex hand-over"))
    rows += [report.beside(f"crowd/{name}-switches", s[f"{name}_switches"], [], "", "none; how often a message has the processor given up")
             for name in ("ports", "tags", "pairs")]
    return rows + [report.inform(f"crowd/{name}", s["ports"][:1], turns.figures(name), "ns", name)
                   for name in ("ucx", *peers.MPI_SHARED) if name in turns.rounds]
