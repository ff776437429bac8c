"""The model of a transfer between two processes, by HAL: calibrated at a few sizes, held against the measurement at others."""

import statistics
from dataclasses import dataclass

import harness
import plot
import report
from cases import Series, case
from rounds import Round, grouped, parse, together

KIB = 1 << 10
N_TRIES = 4  # of one size, while the processors are moved


@dataclass
class Regime:
    """A line: so much for each message, so much for each byte."""
    name: str
    ends: tuple     # the sizes that it is calibrated at, which it also reaches from and to
    between: tuple  # the sizes that it predicts
    begins: int     # the size from which on the library does it so; 0: it follows from the ends

    def is_known(self, measured):
        return all(end in measured for end in self.ends)

    def predict(self, measured, size):
        (low, high), (t_low, t_high) = self.ends, (measured[end] for end in self.ends)
        return t_low + (size - low) * (t_high - t_low) / (high - low)

    def crossing(self, before, measured):
        """The size from which on this regime is the faster one; 0: from the first byte on."""
        slopes = [(measured[r.ends[1]] - measured[r.ends[0]]) / (r.ends[1] - r.ends[0]) for r in (before, self)]
        starts = [measured[r.ends[0]] - r.ends[0] * slope for r, slope in zip((before, self), slopes)]
        return max(0.0, (starts[1] - starts[0]) / (slopes[0] - slopes[1])) if slopes[0] != slopes[1] else 0.0


# ahead: written with ordinary stores into lines that the receiver has asked for. inline: the first of them only. past: one frame, copied as long ones are.
# pieces: the receiver copies one frame while the next is written. offered: fetched by the receiver, or pushed in pieces.
MODELS = {
    "D": (Regime("ahead", (64, 256), (128, 192), 0),
          Regime("inline", (256, 1536), (512, 1024), 0),
          Regime("past", (2 * KIB, 16 * KIB), (4 * KIB, 8 * KIB), 2 * KIB),
          Regime("pieces", (64 * KIB, 1024 * KIB), (128 * KIB, 256 * KIB, 512 * KIB), 16 * KIB)),
    "T": (Regime("ahead", (64, 256), (128, 192), 0),
          Regime("inline", (256, 1536), (512, 1024), 0),
          Regime("past", (2 * KIB, 16 * KIB), (4 * KIB, 8 * KIB), 2 * KIB),
          Regime("offered", (128 * KIB, 1024 * KIB), (256 * KIB, 512 * KIB), 16 * KIB)),
    "tcp": (Regime("buffered", (64, 16 * KIB), (KIB, 4 * KIB, 8 * KIB), 0),
            Regime("frames", (64 * KIB, 1024 * KIB), (128 * KIB, 256 * KIB, 512 * KIB), 0)),
}
TITLES = {"D": "HAL shm, ports D", "T": "HAL shm, tags", "tcp": "HAL tcp over the loopback"}



def one_way(bench, kind, size):
    """Of HAL tcp one frame is copied into the kernel's buffers and out of them; several are sent one after the other. Without pacing: what a rate
    bounds that the kernel has estimated (BBR) is no line, and another one in each run."""
    program = ("link", "--congestion", "reno", "--batch", "4") if kind == "tcp" else ("native", "--kind", kind, *bench.rounds())
    return bench.program(*program, "--size", str(size), "--msec", bench.msec(90), "--warmup-msec", bench.msec(90))[0]


def measure(bench, kind, sizes):
    """{size: ns} as the figure of a round, all of one placement of the processors. None: they were moved in between."""
    lines = {size: one_way(bench, kind, size) for size in sizes}
    by_round = {size: parse(line) for size, line in lines.items()}
    if any(by_round.values()):
        return together(by_round)
    return Round({size: line["one_way_ns"] for size, line in lines.items()}, (1, 1))


class Sizes(Series):
    """What was measured, and what the model said of it, by size and repetition."""

    def __init__(self):
        super().__init__()
        self.looks = []

    def look(self, bench, kind, regime, size):
        """One size, and the two ends of its line just before and after, all on processors as far from each other: again, if these are moved."""
        low, high = regime.ends
        for _ in range(N_TRIES):
            measured = measure(bench, kind, (low, size, high))
            if measured:
                self.looks.append(measured)
                self.add(**{f"{size}": measured.figure[size], f"{size} model": regime.predict(measured.figure, size)})
                return

    def middle(self):
        """{size: ns}, of the placement with most looks."""
        figures = [look.figure for look in grouped(self.looks)[0].rounds] if self.looks else []
        sizes = {size for figure in figures for size in figure}
        return {size: statistics.median(figure[size] for figure in figures if size in figure) for size in sizes}

    def curve(self, kind, regimes):
        middle = self.middle()
        lines = [[(size, regime.predict(middle, size)) for size in sorted(regime.ends + regime.between)]
                 for regime in regimes if regime.is_known(middle)]
        return plot.Curve(TITLES[kind], sorted(middle.items()), lines)

    def rows(self, kind, regimes):
        middle, rows = self.middle(), []
        for before, regime in zip((None, *regimes), regimes):
            rows += [report.within(f"native-model/{kind}/{size}", self.get(f"{size}", []), self.get(f"{size} model", []), "ns", 0.15,
                                   "the model") for size in regime.between]
            if regime.begins and before.is_known(middle) and regime.is_known(middle):
                rows.append(report.inform(f"native-model/{kind}/{regime.name}", [regime.crossing(before, middle)],
                                          [regime.begins], "B",
                                          "the size from which on it is done; the model would begin here"))
        return rows


@case("native-model")
def native_model(bench):
    """one way of a message by size: what a model of lines predicts that were drawn through other sizes; ports D, tags (T), HAL tcp"""
    rows, curves = [], []
    for kind, regimes in MODELS.items():
        s = Sizes()
        for _ in bench.repetitions():
            for regime in regimes:
                for size in regime.between:
                    s.look(bench, kind, regime, size)
        curves.append(s.curve(kind, regimes))
        rows += s.rows(kind, regimes)
    plot.write(harness.BUILD / "bench-model.svg", "One way of a message by its size", curves)
    return rows
