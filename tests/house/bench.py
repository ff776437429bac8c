"""Which rounds of a measurement count, and what is said of them; guests that are missing or hang. Prints test results; bench.sh runs it."""
import os
import sys
import types

sys.path.insert(0, "bench")
import cases_peers  # noqa: E402
import harness  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
import rounds  # noqa: E402
from rounds import Round  # noqa: E402


def check(name, got, wanted):
    print(f"ok bench.{name}" if got == wanted else f"not ok bench.{name}: {got!r}, not {wanted!r}", flush=True)


def lines_of(*pairs):
    return [Round(figure, (line, line)) for figure, line in pairs]


def rows_of(all_rounds, floor=Round.line, judge=report.at_most, limit=2.0):
    return report.by_placement(judge, "case", all_rounds, floor, "ns", limit, "floor")


def parses():
    parsed = rounds.parse({"floors": "10.0:0.00,20.0:0.00,21.0:0.00", "rounds": "30.000,40.000"})
    check("rounds_stand_between_floors", parsed, [Round(30.0, (10.0, 20.0)), Round(40.0, (20.0, 21.0))])
    parsed = rounds.parse({"floors": "10.0:50.00,20.0:40.00", "rounds": 9.5})
    check("a_single_round_with_memcpy", parsed, [Round(9.5, (10.0, 20.0), (50.0, 40.0))])
    try:
        rounds.parse({"floors": "10.0:0.00,20.0:0.00", "rounds": "30.000,40.000"})
        check("a_floor_is_missing", "no error", "an error")
    except ValueError as error:
        check("a_floor_is_missing", str(error), "floors do not stand between the rounds")


def counts():
    check("same_floors_count", Round(1, (10, 12)).counts(), True)
    check("other_floors_do_not_count", [Round(1, pair).counts() for pair in ((10, 13), (13, 10))], [False, False])
    check("other_rates_of_memcpy_do_not_count", Round(1, (10, 10), (50, 30)).counts(), False)


def one_placement():
    rows = rows_of(lines_of((60, 30), (62, 31), (90, 30)) + [Round(500, (30, 155))])
    check("one_placement_is_one_row", [row.case for row in rows], ["case"])
    check("the_median_of_ratios", (rows[0].ratio, rows[0].met), (2.0, True))
    check("what_is_left_out_is_said", rows[0].remark, "floor 30 ns in 3 of 4 rounds; 1 left out")


def several_placements():
    near, far = [(100, 33)] * 4, [(300, 155)] * 6
    rows = rows_of(lines_of(*near, *far))
    check("each_placement_has_its_row", [(row.case, row.met) for row in rows],
          [("case, 155 ns", True), ("case, 33 ns", False)])
    check("each_row_has_its_own_figures", [(row.pulc, row.twin) for row in rows], [(300, 155), (100, 33)])
    check("all_placements_are_said", rows[1].remark, "floor 155 ns in 6, 33 ns in 4 of 10 rounds; 0 left out")
    rows = rows_of(lines_of(*near[:2], *far))
    check("a_placement_of_two_rounds_has_none", [row.case for row in rows], ["case"])
    check("its_rounds_are_left_out", rows[0].remark, "floor 155 ns in 6, 33 ns in 2 of 8 rounds; 2 left out")


def of_one_placement():
    near, far = [(100, 33), (102, 33), (110, 34)], [(300, 155), (310, 150)]
    all_near = rounds.together({"a": lines_of(*near), "b": lines_of(*far, (200, 33))})
    check("what_belongs_together_is_of_one_placement", (all_near.figure, all_near.line()), ({"a": 102, "b": 200}, 33))
    check("who_has_fewest_rounds_decides", rounds.together({"a": lines_of(*near, *far), "b": lines_of(*far, (200, 33))}).figure, {"a": 305, "b": 305})
    check("nothing_in_common", rounds.together({"a": lines_of(*near), "b": lines_of(*far)}), None)
    check("nothing_that_counts", rounds.together({"a": [Round(60, (30, 155))]}), None)


def no_round():
    rows = rows_of([Round(60, (30, 155))])
    check("no_round_is_a_goal_missed", (len(rows), rows[0].ratio, rows[0].met), (1, None, False))
    check("no_round_is_said", rows[0].remark, "none of 1 rounds had the same floor before and after it")
    check("the_remark_is_shown", rows[0].remark in report.table(rows), True)


def one_processor():
    machine = types.SimpleNamespace(server=0, client=0)
    check("one_processor_has_no_rounds", harness.Bench(machine, None, False).rounds(), ())
    check("a_program_without_rounds", rounds.parse({"one_way_ns": 60.0}), [])
    rows = rows_of([])
    check("no_floor_is_a_goal_missed", [(row.case, row.met) for row in rows], [("case", False)])
    check("no_floor_is_said", rows[0].remark, "no floor on one processor")


def memcpy():
    mixed = [Round(20, (33, 33), (50, 50)), Round(22, (33, 33), (50, 50)), Round(21, (33, 33), (50, 50)),
             Round(30, (33, 33), (50, 80))]
    rows = rows_of(mixed, Round.copy, report.at_least, 0.4)
    check("memcpy_is_the_twin", (rows[0].twin, rows[0].ratio, rows[0].met), (50, 0.42, True))


def failure_of(function, *arguments, **named):
    try:
        return f"no failure, but {function(*arguments, **named)!r}"
    except harness.Failed as failure:
        return str(failure)


def hanging_guest():
    mark = f"PULC_BENCH_MARK={os.getpid()}"
    env = {**os.environ, **dict([mark.split("=")])}
    said = failure_of(peers.said_by, ["sh", "-c", "sleep 600 & sleep 600; wait"], env, seconds=0.2)
    check("a_guest_that_hangs_is_ended", said, "sh took longer than 0.2 s")
    harness.wait_until(lambda: not harness.carry(mark), "the end of what a guest has started")
    check("what_it_has_started_too", harness.carry(mark), False)


def missing_guest():
    def measure(_, way):
        if way == "broken":
            raise harness.Failed("broken\nfor good")
        return way

    check("the_best_way_that_works", peers.best(["broken", 1, 3, 2], lambda way: measure(None, way)), 3)
    check("no_way_works", failure_of(peers.best, ["broken"], lambda way: measure(None, way)), "broken\nfor good")
    turns = turns_of([30] * 7)
    for ours, way in ((10, 5), (12, 6)):
        turns.add("ours", measure, ours)
        turns.add("here", measure, way)
        turns.add("away", measure, "broken")
    goals = {name: (report.at_least, 1.0, name) for name in ("here", "away")}
    rows = turns.rows("case", "ours", "GB/s", goals)
    check("who_is_here_is_judged", [(row.case, row.ratio, row.met) for row in rows], [("case/here", 2.0, True)])
    turns.say_absent("case")
    check("who_is_not_is_said", turns.bench.tables, ["case: without away: broken"])


def turns_of(floors):
    """Turns on a machine with these floors, one after the other."""
    left = iter(floors)
    return cases_peers.Turns(types.SimpleNamespace(tables=[], floor=lambda: {"line_ns": next(left)}))


def common_placement():
    goals = {"guest": (report.at_most, 1.0, "guest")}

    def rows_in_turn(*floors_and_figures):
        turns = turns_of([floors_and_figures[0], *floors_and_figures[1::3]])
        for name, figure in zip(floors_and_figures[2::3], floors_and_figures[3::3]):
            turns.add(name, lambda _, figure: figure, figure)
        return turns.rows("case", "ours", "ns", goals)

    near = (30, "ours", 90, 30, "guest", 100)
    far = (150, "ours", 200, 150, "guest", 400)
    rows = rows_in_turn(30, *near, 150, "ours", 300)
    check("a_move_between_two_is_in_neither", [(row.pulc, row.twin, row.met) for row in rows], [(90, 100, True)])
    rows = rows_in_turn(30, *near, 150, "guest", 1, *far * 3)
    check("the_placement_with_most_rounds_of_both", [(row.case, row.pulc, row.twin) for row in rows], [("case/guest", 200, 400)])
    check("what_was_seen_is_said", rows[0].remark, "floor 150 ns in 6, 30 ns in 2 of 9 rounds; 3 left out")
    rows = rows_in_turn(30, *near * 3, 150, "ours", 1, *far * 4)
    check("each_placement_of_both_has_its_row", [(row.case, row.ratio) for row in rows],
          [("case/guest, 150 ns", 0.5), ("case/guest, 30 ns", 0.9)])
    rows = rows_in_turn(30, 30, "ours", 90, 150, "guest", 1, 150, "guest", 400)
    check("no_common_placement_is_a_goal_missed", [(row.pulc, row.met) for row in rows], [(None, False)])


for part in (parses, counts, one_placement, several_placements, of_one_placement, no_round, one_processor, memcpy, hanging_guest, missing_guest, common_placement):
    part()
