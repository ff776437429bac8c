"""A plot of curves as an SVG file, such as a measurement against a model: both axes logarithmic, points and lines."""

import math
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT, MARGIN = 860, 560, 70
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#7f7f7f")


@dataclass
class Curve:
    name: str
    points: list = field(default_factory=list)  # (x, y) as measured
    lines: list = field(default_factory=list)   # each a list of (x, y)
    remark: str = ": points measured, lines from the model"  # behind its name


class Axis:
    """Where a value lies between two ends, on a logarithmic scale."""

    def __init__(self, values, base, begin, end):
        self.low = math.floor(math.log(min(values), base))
        self.high = max(self.low + 1, math.ceil(math.log(max(values), base)))
        self.base, self.begin, self.end = base, begin, end

    def place(self, value):
        part = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self):
        return [self.base ** at for at in range(self.low, self.high + 1)]


def bytes_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(nsec):
    for unit, name in ((1e6, "ms"), (1e3, "us")):
        if nsec >= unit:
            return f"{nsec / unit:g} {name}"
    return f"{nsec:g} ns"


def text(x, y, words, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def grid(x, y):
    parts = []
    for tick in x.ticks():
        at = x.place(tick)
        parts.append(f'<path d="M{at:.1f} {y.begin}V{y.end}" stroke="#ddd"/>')
        parts.append(text(at, y.begin + 18, bytes_text(tick)))
    for tick in y.ticks():
        at = y.place(tick)
        parts.append(f'<path d="M{x.begin} {at:.1f}H{x.end}" stroke="#ddd"/>')
        parts.append(text(x.begin - 8, at + 4, time_text(tick), "end"))
    return parts


def draw(curve, colour, row, x, y):
    parts = [text(x.begin + 16, y.end + 18 + 18 * row, f"{curve.name}{curve.remark}", "start", colour)]
    for line in curve.lines:
        way = " ".join(f"{x.place(at):.1f},{y.place(value):.1f}" for at, value in line)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    for at, value in curve.points:
        parts.append(f'<circle cx="{x.place(at):.1f}" cy="{y.place(value):.1f}" r="3.5" fill="{colour}"/>')
    return parts


def write(path, title, curves):
    places = [place for curve in curves for places in (curve.points, *curve.lines) for place in places]
    x = Axis([at for at, _ in places], 4, MARGIN, WIDTH - 20)
    y = Axis([value for _, value in places], 10, HEIGHT - 40, 40)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
             text(WIDTH / 2, 24, title), *grid(x, y)]
    for row, curve in enumerate(curves):
        parts += draw(curve, COLOURS[row % len(COLOURS)], row, x, y)
    path.write_text("\n".join([*parts, "</svg>", ""]))
