"""Ping-pong and pairwise exchange from 0 B to 16 MiB, layer by layer over the bare HAL: tables and plots as pulc-1998 has them."""

import statistics
from dataclasses import dataclass

import harness
import plot
import report
from cases import Series, case

SIZES = (0, 1, 8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
PATTERNS = {"pingpong": (), "exchange": ("--exchange",)}


@dataclass
class Layer:
    name: str
    way: str
    title: str
    pulc: bool = False     # sockets: PULC's
    stream: bool = False   # which has no messages of nothing


LAYERS = (Layer("hal", "hal", "bare HAL shm"),
          Layer("D", "D", "ports D"),
          Layer("S", "S", "ports S", stream=True),
          Layer("T", "T", "tags"),
          Layer("shim", "socket", "sockets under PULC", pulc=True, stream=True),
          Layer("kernel", "socket", "sockets of the kernel", stream=True))


def measure(bench, s, layer, size, flags):
    """Long enough that the memory of the rings has been used, and connections are on them."""
    options = ("--way", layer.way, "--size", str(size), "--msec", bench.msec(60), "--warmup-msec", "150", *flags)
    lines = s.add_on_rings(bench, "layers", *options) if layer.pulc else bench.program("layers", *options)
    return lines[0]["nsec"]


class Pattern:
    """What was measured of one pattern: ns by layer and size."""

    def __init__(self, name):
        self.name = name
        self.flags = PATTERNS[name]
        self.series = Series()

    def look(self, bench):
        for layer in LAYERS:
            for size in SIZES:
                if size or not layer.stream:
                    self.series.add(**{f"{layer.name} {size}": measure(bench, self.series, layer, size, self.flags)})

    def nsec(self, layer):
        """By size, medians."""
        return {size: statistics.median(self.series[f"{layer.name} {size}"]) for size in SIZES if size or not layer.stream}

    def table(self):
        heads = ["size", *(layer.title for layer in LAYERS)]
        columns = [self.nsec(layer) for layer in LAYERS]
        lines = [heads]
        for size in SIZES:
            lines.append([plot.bytes_text(size), *(report.number(column[size] / 1000) if size in column else "-" for column in columns)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        return "\n".join([f"{self.name}, us a message one way", *("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)])

    def curves(self):
        return [plot.Curve(layer.title, points, [points], remark="")
                for layer in LAYERS
                for points in [[(size, nsec) for size, nsec in self.nsec(layer).items() if size]]]

    def rows(self):
        """What a layer adds to the bare HAL, its bandwidth, and the size at which it has half of that."""
        rows, hal = [], LAYERS[0]
        for layer in LAYERS:
            name, nsec = f"native-layers/{self.name}/{layer.name}", self.nsec(layer)
            largest, best = max(nsec), max((size / nsec[size] for size in nsec))
            rows += [report.inform(f"{name}/8B", self.series[f"{layer.name} 8"], self.series["hal 8"], "ns", hal.title),
                     report.inform(f"{name}/16MiB", [largest / n for n in self.series[f"{layer.name} {largest}"]],
                                   [largest / n for n in self.series[f"hal {largest}"]], "GB/s", hal.title),
                     report.inform(f"{name}/half", [half_size(nsec, best)], [best], "B",
                                   "size with half of the best bandwidth, which stands beside it in GB/s")]
            rows[-1].ratio = None
        return self.series.judge(*rows)


def half_size(nsec, best):
    """Between two sizes the time is taken for a line."""
    sizes = sorted(nsec)
    for low, high in zip(sizes, sizes[1:]):
        if high / nsec[high] >= best / 2:
            slope = (nsec[high] - nsec[low]) / (high - low)
            start = nsec[low] - low * slope
            return max(low, best / 2 * start / (1 - best / 2 * slope)) if best / 2 * slope < 1 else high
    return sizes[-1]


@case("native-layers")
def native_layers(bench):
    """ping-pong and pairwise exchange, 0 B to 16 MiB: the bare HAL shm, ports, tags and sockets; what each layer adds"""
    patterns = [Pattern(name) for name in PATTERNS]
    for _ in bench.repetitions(3):
        for pattern in patterns:
            pattern.look(bench)
    for pattern in patterns:
        bench.tables.append(pattern.table())
        plot.write(harness.BUILD / f"bench-layers-{pattern.name}.svg", f"Time of a message by its size, {pattern.name}", pattern.curves())
    return [row for pattern in patterns for row in pattern.rows()]
