"""Which rounds of a measurement count: those before and after which the machine could do the same.

A round is a figure with the floor directly before and after it. Where a host moves a virtual machine's processors about, a cache
line between them takes several times as long from one moment to the next. A round that such a move came into is
left out: its floors differ. The others are put together by the way of a line, one group for each placement of the processors,
and a ratio is the median of the ratios of one group's rounds, never of figures of two placements.
"""

import statistics
from dataclasses import dataclass

PART_DIFFERENT = 0.2   # floors that differ by more are not the same
PART_OF_ROUNDS = 0.15  # a placement with fewer of the rounds that count, or with two, has no line of its own
N_ROUNDS_LEAST = 3


@dataclass
class Round:
    figure: float
    lines: tuple          # ns, before and after
    copies: tuple = ()    # GB/s, before and after, where the figure is compared with memcpy

    def counts(self):
        return all(same(*pair) for pair in (self.lines, self.copies) if pair)

    def line(self):
        return statistics.mean(self.lines)

    def copy(self):
        return statistics.mean(self.copies)


@dataclass
class Placement:
    """Rounds with the same way of a line."""
    rounds: list

    def line(self):
        return statistics.median(r.line() for r in self.rounds)


def same(a, b):
    return max(a, b) <= min(a, b) * (1 + PART_DIFFERENT)


def between(before, figure, after, copy=None):
    """A round of a program that does not measure the floor itself. copy: the name of memcpy's rate, if it is compared with that."""
    return Round(figure, (before["line_ns"], after["line_ns"]), (before[copy], after[copy]) if copy else ())


def parse(figures):
    """The rounds that a program printed with --rounds: one floor more than rounds. None, if it was not asked for them."""
    if "floors" not in figures:
        return []
    floors = [tuple(map(float, floor.split(":"))) for floor in str(figures["floors"]).split(",")]
    values = list(map(float, str(figures["rounds"]).split(",")))
    if len(floors) != len(values) + 1:
        raise ValueError("floors do not stand between the rounds")
    lines, copies = zip(*floors)
    return [Round(value, lines[i:i + 2], copies[i:i + 2] if any(copies) else ())
            for i, value in enumerate(values)]


def grouped(rounds):
    """Those that count, by placement, the one with most rounds first."""
    groups = []
    for one in sorted((r for r in rounds if r.counts()), key=Round.line):
        if groups and same(groups[-1].rounds[0].line(), one.line()):
            groups[-1].rounds.append(one)
        else:
            groups.append(Placement([one]))
    return sorted(groups, key=lambda group: -len(group.rounds))


def placements(rounds):
    """Those that have a line of their own, and a sentence about what was seen."""
    groups = grouped(rounds)
    least = max(N_ROUNDS_LEAST, PART_OF_ROUNDS * sum(len(group.rounds) for group in groups))
    shown = groups[:1] + [group for group in groups[1:] if len(group.rounds) >= least]
    return shown, describe(rounds, groups, len(rounds) - sum(len(group.rounds) for group in shown))


def in_common(ours, theirs):
    """Two programs that are measured in turn, each round with the floor around it: of each placement that both were seen in the way of a line, our rounds and
    theirs, the one with most rounds first; and a sentence about what was seen."""
    groups = grouped([*ours, *theirs])
    halves = [(group.line(), *([r for r in group.rounds if any(r is one for one in side)] for side in (ours, theirs))) for group in groups]
    shared = sorted((half for half in halves if half[1] and half[2]), key=lambda half: -min(len(half[1]), len(half[2])))
    shown = shared[:1] + [half for half in shared[1:] if min(len(half[1]), len(half[2])) >= N_ROUNDS_LEAST]
    n_shown = sum(len(mine) + len(others) for _, mine, others in shown)
    return shown, describe([*ours, *theirs], groups, len(ours) + len(theirs) - n_shown)


def together(measured):
    """Measurements that belong together, {name: rounds}: a round whose figure is {name: median}, of the placement that all of them were seen in, the one with
    most rounds of whom has fewest there; None: there is none."""
    best, n_best = None, 0
    for group in grouped([one for rounds in measured.values() for one in rounds]):
        figures = {name: [r.figure for r in group.rounds if any(r is one for one in rounds)] for name, rounds in measured.items()}
        n = min(map(len, figures.values()))
        if n > n_best:
            best, n_best = Round({name: statistics.median(values) for name, values in figures.items()}, (group.line(), group.line())), n
    return best


def describe(rounds, groups, n_left):
    if not rounds:
        return "no floor on one processor"
    if not groups:
        return f"none of {len(rounds)} rounds had the same floor before and after it"
    seen = ", ".join(f"{group.line():.0f} ns in {len(group.rounds)}" for group in groups)
    return f"floor {seen} of {len(rounds)} rounds; {n_left} left out"
