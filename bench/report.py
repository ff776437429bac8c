"""Rows of the result: one figure, its twin, their ratio, the goal and whether it was met.

A ratio is taken within each repetition and its median counts, so that a machine that changes speed
between repetitions does not spoil it; it need not be the quotient of the two medians shown. What is compared with the machine's floor
is compared round by round, with a row for each placement of the processors that it was seen in (rounds.py).
"""

import json
import statistics
from dataclasses import dataclass

import rounds as rounds_of


@dataclass
class Row:
    case: str
    pulc: float | None
    twin: float | None
    unit: str
    ratio: float | None
    goal: str | None  # None: the row informs, and is not in the JSON
    met: bool
    note: str = ""     # what a goal was missed for, or what the twin of a row without a goal is
    remark: str = ""   # which rounds the ratio is of


def median(values):
    return statistics.median(values) if values else None


def ratio_of(over, under):
    """The median of the quotients, repetition by repetition."""
    return median([a / b for a, b in zip(over, under) if b])


def at_most(case, pulc, twin, unit, limit, of):
    """Goal: PULC's figure is at most `limit` times its twin."""
    ratio = ratio_of(pulc, twin)
    return Row(case, median(pulc), median(twin), unit, ratio, f"<= {limit:g} x {of}",
               ratio is not None and ratio <= limit)


def at_least(case, pulc, twin, unit, limit, of):
    """Goal: PULC's figure is at least `limit` times its twin."""
    ratio = ratio_of(pulc, twin)
    return Row(case, median(pulc), median(twin), unit, ratio, f">= {limit:g} x {of}",
               ratio is not None and ratio >= limit)


def faster(case, pulc, twin, unit, limit, of):
    """Goal: the twin takes at least `limit` times as long as PULC."""
    ratio = ratio_of(twin, pulc)
    return Row(case, median(pulc), median(twin), unit, ratio, f">= {limit:g} x faster than {of}",
               ratio is not None and ratio >= limit)


def by_placement(judge, case, rounds, floor, unit, *goal):
    """Rows of one of the functions here, with the floor as the twin: floor(round). The case is named after the floor where there are several."""
    groups, remark = rounds_of.placements(rounds)
    rows = []
    for group in groups or [rounds_of.Placement([])]:
        name = case if len(groups) < 2 else f"{case}, {group.line():.0f} ns"
        rows.append(judge(name, [r.figure for r in group.rounds], [floor(r) for r in group.rounds], unit, *goal))
        rows[-1].remark = remark
    return rows


def by_common_placement(judge, case, ours, theirs, unit, *goal):
    """Rows of one of the functions here for two programs that were measured in turn: medians of the rounds of one placement, a row for each that both were seen in."""
    shown, remark = rounds_of.in_common(ours, theirs)
    rows = []
    for line, mine, others in shown or [(0, [], [])]:
        name = case if len(shown) < 2 else f"{case}, {line:.0f} ns"
        figures = [[median([r.figure for r in side])] if side else [] for side in (mine, others)]
        rows.append(judge(name, *figures, unit, *goal))
        rows[-1].remark = remark
    return rows


def within(case, pulc, twin, unit, part, of):
    """Goal: PULC's figure is its twin's, give or take that part of it."""
    ratio = ratio_of(pulc, twin)
    return Row(case, median(pulc), median(twin), unit, ratio, f"within {100 * part:g} % of {of}",
               ratio is not None and abs(ratio - 1) <= part)


def below(case, pulc, twin, unit, limit):
    """Goal: PULC's figure itself is below `limit`."""
    figure = median(pulc)
    return Row(case, figure, median(twin), unit, ratio_of(pulc, twin), f"< {limit:g} {unit}",
               figure is not None and figure < limit)


def above(case, pulc, twin, unit, limit):
    """Goal: PULC's figure itself is `limit` or more."""
    figure = median(pulc)
    return Row(case, figure, median(twin), unit, ratio_of(pulc, twin), f">= {limit:g} {unit}",
               figure is not None and figure >= limit)


def inform(case, pulc, twin, unit, of):
    """No goal: shown beside the others."""
    return Row(case, median(pulc), median(twin), unit, ratio_of(pulc, twin), None, True,
               f"twin: {of}")


def beside(case, pulc, twin, unit, of):
    """No goal, and figures of which no ratio is taken."""
    row = inform(case, pulc, twin, unit, of)
    row.ratio = None
    return row


def failed(case, why):
    return Row(case, None, None, "", None, "to run", False, why)


def apply_note(rows, note):
    """A case whose bytes did not go through rings has missed its goals, whatever its figures."""
    for row in rows if note else ():
        if row.goal:
            row.note = note
            row.met = False
    return rows


def number(value):
    if value is None:
        return "-"
    for limit, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= limit:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


def table(rows):
    head = ("case", "PULC", "twin", "unit", "ratio", "goal", "")
    lines = [head]
    for row in rows:
        verdict = "" if row.goal is None else "met" if row.met else "MISSED"
        lines.append((row.case, number(row.pulc), number(row.twin), row.unit,
                      number(row.ratio), row.goal or f"({row.note})", verdict))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = {1, 2, 4}
    text = ["  ".join(cell.rjust(w) if i in right else cell.ljust(w)
                      for i, (cell, w) in enumerate(zip(line, widths))).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text + remarks(rows))


def remarks(rows):
    """What was said about rows, once each."""
    said = {}
    for row in rows:
        for note in (row.note if row.goal else "", row.remark):
            if note:
                said.setdefault(note, []).append(row.case)
    return [f"{', '.join(about)}: {note}" for note, about in said.items()]


def write_json(rows, path):
    keys = ("case", "pulc", "twin", "unit", "ratio", "goal", "met", "remark")
    listed = [{key: getattr(row, key) for key in keys} for row in rows if row.goal]
    path.write_text(json.dumps(listed, indent=1) + "\n")
