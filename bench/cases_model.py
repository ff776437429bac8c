"""The model of a transfer between two processes, by HAL: calibrated at a few sizes, held against the measurement at others."""

import statistics
from dataclasses import dataclass

import harness
import plot
import report
from cases import Series, case

KIB = 1 << 10


@dataclass
class Regime:
    """A line: so much for each message, so much for each byte."""
    name: str
    ends: tuple     # the sizes that it is calibrated at, which it also reaches from and to
    between: tuple  # the sizes that it predicts
    begins: int     # the size from which on the library does it so; 0: there is no other way

    def predict(self, measured, size):
        (low, high), (t_low, t_high) = self.ends, (measured[end] for end in self.ends)
        return t_low + (size - low) * (t_high - t_low) / (high - low)

    def crossing(self, before, measured):
        """The size from which on this regime is the faster one; 0: from the first byte on."""
        slopes = [(measured[r.ends[1]] - measured[r.ends[0]]) / (r.ends[1] - r.ends[0]) for r in (before, self)]
        starts = [measured[r.ends[0]] - r.ends[0] * slope for r, slope in zip((before, self), slopes)]
        return max(0.0, (starts[1] - starts[0]) / (slopes[0] - slopes[1])) if slopes[0] != slopes[1] else 0.0


# inline: written with ordinary stores, the first bytes in the very line that tells of them. past: one frame, written past the caches.
# pieces: the receiver copies one frame while the next is written. offered: fetched by the receiver, or pushed in pieces.
MODELS = {
    "D": (Regime("inline", (64, 1536), (256, 1024), 0),
          Regime("past", (2 * KIB, 16 * KIB), (4 * KIB, 8 * KIB), 2 * KIB),
          Regime("pieces", (64 * KIB, 1024 * KIB), (128 * KIB, 256 * KIB, 512 * KIB), 16 * KIB)),
    "T": (Regime("inline", (64, 1536), (256, 1024), 0),
          Regime("past", (2 * KIB, 16 * KIB), (4 * KIB, 8 * KIB), 2 * KIB),
          Regime("offered", (128 * KIB, 1024 * KIB), (256 * KIB, 512 * KIB), 16 * KIB)),
    "tcp": (Regime("buffered", (64, 16 * KIB), (KIB, 4 * KIB, 8 * KIB), 0),
            Regime("frames", (64 * KIB, 1024 * KIB), (128 * KIB, 256 * KIB, 512 * KIB), 0)),
}
TITLES = {"D": "HAL shm, ports D", "T": "HAL shm, tags", "tcp": "HAL tcp over the loopback"}



def one_way(bench, kind, size):
    """Of HAL tcp one frame is copied into the kernel's buffers and out of them; several are sent one after the other. Without pacing: what a rate
    bounds that the kernel has estimated (BBR) is no line, and another one in each run."""
    program = ("link", "--congestion", "reno", "--batch", "4") if kind == "tcp" else ("native", "--kind", kind)
    return bench.program(*program, "--size", str(size), "--msec", bench.msec(90), "--warmup-msec", bench.msec(90))[0]["one_way_ns"]


class Sizes(Series):
    """What was measured, and what the model said of it, by size and repetition."""

    def look(self, bench, kind, regime, size):
        """One size, and the two ends of its line just before and after: a machine that changes speed spoils only the few of a moment."""
        low, high = regime.ends
        measured = {at: one_way(bench, kind, at) for at in (low, size, high)}
        self.add(**{f"{at}": value for at, value in measured.items()})
        self.add(**{f"{size} model": regime.predict(measured, size)})

    def middle(self, regimes):
        return {size: statistics.median(self[f"{size}"]) for regime in regimes for size in regime.ends + regime.between}

    def curve(self, kind, regimes):
        middle = self.middle(regimes)
        lines = [[(size, regime.predict(middle, size)) for size in sorted(regime.ends + regime.between)]
                 for regime in regimes]
        return plot.Curve(TITLES[kind], sorted(middle.items()), lines)

    def rows(self, kind, regimes):
        middle, rows = self.middle(regimes), []
        for before, regime in zip((None, *regimes), regimes):
            rows += [report.within(f"native-model/{kind}/{size}", self[f"{size}"], self[f"{size} model"], "ns", 0.15,
                                   "the model") for size in regime.between]
            if regime.begins:
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
