"""The loads of tests/apps/load as measurements: no application is slower under PULC than on the kernel.

The same scripts, whose content is compared, but each side on a processor of its own (MPI's ranks on both), and nobody looks at psid meanwhile.
A program that is not installed is left out, as a guest: `tools/deps.sh apps` installs them all.
"""

import importlib.machinery
import importlib.util
import os
import subprocess

import harness
import report
from cases import Series, case

LOADS = harness.ROOT / "tests" / "apps" / "load" / "run-load"
# What these measure is how long a server takes to start again.
NOT_RATES = ("grpc_restart",)


def load_module(path):
    loader = importlib.machinery.SourceFileLoader("run_load", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_load", loader))
    loader.exec_module(module)
    return module


def stage_of(loads, machine, bodies_on_all):
    """The stage of those loads, pinned and undisturbed."""

    class Stage(loads.Load):
        """Counts upgrades where the loads' own looks at each connection's bytes again and again."""

        n_ends = 0

        def watch(self):
            pass

        def demand_rings(self, n_connections=1, size=1000):
            self.n_ends = n_connections if self.shim else 0
            self.n_upgrades = self.bed.status()["n_upgrades"]

        def serve(self, *command, **how):
            return super().serve(*command, preexec_fn=lambda: os.sched_setaffinity(0, {machine.server}), **how)

        def run(self, *command, **how):
            if bodies_on_all:
                return super().run(*command, **how)
            usual = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {machine.client})  # of this thread, and of what it starts
            try:
                return super().run(*command, **how)
            finally:
                os.sched_setaffinity(0, usual)

    return Stage


def once(loads, machine, name, body, shim):
    """Plays a load once. Returns its rate, its unit and what is wrong with the way that its bytes went."""
    stage = stage_of(loads, machine, name in ("mpich", "openmpi"))(shim)
    note = ""
    try:
        rate, unit = body(stage)
        if 2 * getattr(stage, "n_upgrades", 0) < stage.n_ends:
            note = f"not over rings: {stage.n_upgrades} upgrades, {stage.n_ends} ends should have been upgraded"
    finally:
        left = stage.close()
    if left:
        raise harness.Failed("; ".join(left))
    return rate, unit, note


def compare(bench, loads, name, body):
    s, unit = Series(), ""
    try:
        for _ in bench.repetitions(5):
            kernel, unit, _ = once(loads, bench.machine, name, body, False)
            pulc, unit, note = once(loads, bench.machine, name, body, True)
            s.add(kernel=kernel, pulc=pulc)
            s.note = s.note or note
    except loads.apps.Skip:
        return []
    except (loads.apps.Failure, OSError, RuntimeError, subprocess.SubprocessError) as failure:
        raise harness.Failed(f"{name}: {failure}") from failure
    return s.judge(report.at_least(f"apps-{name.replace('_', '-')}", s["pulc"], s["kernel"], unit, 0.98, "kernel"))


def register(loads, name, body):
    def run(bench):
        return compare(bench, loads, name, body)

    case_name = f"apps-{name.replace('_', '-')}"
    run.__doc__ = f"{name.replace('_', ' ')}, as in make check-apps: no slower than on the kernel"
    case(case_name)(run)


def register_all():
    loads = load_module(LOADS)
    for name, body in loads.cases().items():
        if name not in NOT_RATES:
            register(loads, name, body)


register_all()
