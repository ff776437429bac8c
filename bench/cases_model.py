"""The model of a transfer between two processes of a node: calibrated at a few sizes, held against the measurement at others."""

from dataclasses import dataclass

import report
from cases import Series, case

KIB = 1 << 10


@dataclass
class Regime:
    """A line: so much for each message, so much for each byte."""
    name: str
    ends: tuple     # the sizes that it is calibrated at
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
}


def measure(bench, kind, regimes):
    options = ("--msec", bench.msec(150), "--warmup-msec", bench.msec(150))
    return {size: bench.program("native", "--kind", kind, "--size", str(size), *options)[0]["one_way_ns"]
            for regime in regimes for size in regime.ends + regime.between}


@case("native-model")
def native_model(bench):
    """one way of a message by size: what a model of three lines predicts that were drawn through other sizes, ports D and tags (T)"""
    rows = []
    for kind, regimes in MODELS.items():
        s = Series()
        for _ in bench.repetitions(3):
            measured = measure(bench, kind, regimes)
            for at, regime in enumerate(regimes):
                for size in regime.between:
                    s.add(**{f"{size}": measured[size], f"{size} model": regime.predict(measured, size)})
                if at:
                    s.add(**{regime.name: regime.crossing(regimes[at - 1], measured)})
        for regime in regimes:
            rows += [report.within(f"native-model/{kind}/{size}", s[f"{size}"], s[f"{size} model"], "ns", 0.15,
                                   "the model") for size in regime.between]
            if regime.begins:
                rows.append(report.inform(f"native-model/{kind}/{regime.name}", s[regime.name],
                                          [regime.begins] * len(s[regime.name]), "B",
                                          "the size from which on it is done; the model would begin here"))
    return rows
