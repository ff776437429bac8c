"""The cases of pulcrun, each beside the launchers that Debian has: mpiexec.hydra and mpirun."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import harness
import report
from cases import Series, case

SECONDS_MAX = 120
HELLO = r"""
#include <mpi.h>
int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Finalize();
	return 0;
}
"""


def launcher(bench, name):
    """The beginning of a command that starts N tasks, and its environment. None: not installed."""
    environment = bench.psid.environment(preload=False)
    if name == "pulcrun":
        return [str(harness.BUILD / "bin" / "pulcrun"), "--oversubscribe", "-n"], environment
    if not shutil.which(name):
        return None, environment
    if name.startswith("mpirun"):
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        return [name, "--oversubscribe", "-n"], environment
    return [name, "-n"], environment


def msec_of(bench, name, n, *command, output=subprocess.DEVNULL, code=0):
    """How long a job takes from start to end."""
    start, environment = launcher(bench, name)
    try:
        msec, status = harness.msec_of_run(start + [str(n), *command], SECONDS_MAX, env=environment,
                                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as hang:
        raise harness.Failed(f"{name} -n {n} {command[0]} hangs") from hang
    if code is not None and status != code:
        raise harness.Failed(f"{name} -n {n} {command[0]} ended with {status}")
    return msec


def best_of(n, measure):
    return min(measure() for _ in range(n))


@case("job-start")
def job_start(bench):
    """start and end `true`: 1, 16, 64 and 128 tasks, beside hydra and mpirun"""
    rows = []
    for n in (1, 16, 64, 128):
        s = Series()
        for _ in bench.repetitions():
            s.add(pulc=best_of(3, lambda n=n: msec_of(bench, "pulcrun", n, "true")))
            if shutil.which("mpiexec.hydra"):
                s.add(hydra=best_of(3, lambda n=n: msec_of(bench, "mpiexec.hydra", n, "true")))
            if n <= 16 and shutil.which("mpirun.openmpi"):
                s.add(mpirun=msec_of(bench, "mpirun.openmpi", n, "true"))
        name = f"job-start/{n}"
        if "hydra" in s:
            rows.append(report.at_most(name, s["pulc"], s["hydra"], "ms", 0.5, "mpiexec.hydra"))
        if "mpirun" in s:
            rows.append(report.at_most(f"{name}/mpirun", s["pulc"], s["mpirun"], "ms", 0.1, "mpirun"))
    return rows


@case("job-again")
def job_again(bench):
    """start and end `true` 4 times, 1,000 jobs one after the other: how many hang or fail"""
    bad = 0
    for _ in range(50 if bench.quick else 1000):
        try:
            msec_of(bench, "pulcrun", 4, "true")
        except harness.Failed:
            bad += 1
            if bad == 5:
                break
    return [report.below("job-again", [bad], [], "jobs", 1)]


def build_hello(folder, compiler):
    source, program = pathlib.Path(folder, "hello.c"), pathlib.Path(folder, compiler)
    source.write_text(HELLO)
    subprocess.run([compiler, source, "-o", program], check=True, timeout=SECONDS_MAX)
    return str(program)


@case("job-mpi")
def job_mpi(bench):
    """start and end an MPI program of 2 ranks, beside its own launcher"""
    rows = []
    for kind, own in (("mpicc.mpich", "mpiexec.hydra"), ("mpicc.openmpi", "mpirun.openmpi")):
        if not (shutil.which(kind) and shutil.which(own)):
            continue
        s = Series()
        with tempfile.TemporaryDirectory() as folder:
            hello = build_hello(folder, kind)
            for _ in bench.repetitions():
                s.add(pulc=best_of(3, lambda hello=hello: msec_of(bench, "pulcrun", 2, hello)),
                      own=best_of(3, lambda own=own, hello=hello: msec_of(bench, own, 2, hello)))
        rows.append(report.at_most(f"job-mpi/{kind[6:]}", s["pulc"], s["own"], "ms", 1, own))
    return rows


@case("job-failure")
def job_failure(bench):
    """a rank is killed: how long until the launcher has ended"""
    script = 'if [ "${PULC_RANK:-$PMI_RANK}" = 1 ]; then date +%s%N >"$0"; kill -9 $$; fi; exec sleep 60'

    def msec(name, stamp):
        start, environment = launcher(bench, name)
        subprocess.run(start + ["2", "sh", "-c", script, stamp], env=environment,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=SECONDS_MAX, check=False)
        return (time.time_ns() - int(pathlib.Path(stamp).read_text(encoding="ascii"))) / 1e6

    s = Series()
    with tempfile.TemporaryDirectory() as folder:
        stamp = os.path.join(folder, "stamp")
        for _ in bench.repetitions():
            s.add(pulc=msec("pulcrun", stamp))
            if shutil.which("mpiexec.hydra"):
                s.add(hydra=msec("mpiexec.hydra", stamp))
    return [report.below("job-failure", s["pulc"], s.get("hydra", []), "ms", 50)]


def torn(path, n_ranks, prefix):
    """How many lines of a file are not as one task has written them."""
    whole = {b"x" * (60 + 10 * rank) for rank in range(n_ranks)}
    n = 0
    with open(path, "rb") as file:
        for line in file:
            line = line.rstrip(b"\n")
            n += (line.split(b" ", 1)[-1] if prefix else line) not in whole
    return n


@case("job-lines")
def job_lines(bench):
    """400,000 lines from 4 ranks, plain and labelled: time, and lines that came torn

    hydra serves PMI-1 only: pulcrun is told to do the same, or its PMIx server, which a shell gets
    because it may start anything, would be measured.
    """
    n_lines = 10000 if bench.quick else 100000
    script = (f'r=${{PULC_RANK:-$PMI_RANK}}; yes "$(head -c $((60 + 10 * r)) /dev/zero | tr "\\0" x)" '
              f'| head -n {n_lines}')
    rows = []
    for name, mine, theirs in (("plain", [], []), ("labelled", ["--label"], ["-prepend-rank"])):
        mine = mine + ["--mpi", "pmi1"]
        s = Series()
        with tempfile.TemporaryDirectory() as folder:
            def measure(launch, options, path):
                start, environment = launcher(bench, launch)
                with open(path, "wb") as file:
                    msec, status = harness.msec_of_run(start[:1] + options + start[1:] + ["4", "sh", "-c", script],
                                                       SECONDS_MAX, env=environment, stdin=subprocess.DEVNULL,
                                                       stdout=file)
                if status:
                    raise harness.Failed(f"{launch} ended with {status}")
                return msec

            path = os.path.join(folder, "out")
            for _ in bench.repetitions():
                s.add(pulc=measure("pulcrun", mine, path))
                s.add(torn=torn(path, 4, bool(mine)))
                if shutil.which("mpiexec.hydra"):
                    s.add(hydra=measure("mpiexec.hydra", theirs, path))
                    s.add(hydra_torn=torn(path, 4, bool(theirs)))
        rows.append(report.below(f"job-lines/{name}/torn", s["torn"], s.get("hydra_torn", []), "", 1))
        if "hydra" in s:
            rows.append(report.at_most(f"job-lines/{name}", s["pulc"], s["hydra"], "ms", 1, "mpiexec.hydra"))
    return rows


@case("job-output")
def job_output(bench):
    """standard output of 64 chatty ranks, all together, into a reader that checks every line of each"""
    n_ranks, size_line = 64, 64
    n_lines = 65536 if bench.quick else 262144
    chatter = harness.BUILD / "bench" / "chatter"
    start, environment = launcher(bench, "pulcrun")

    def measure():
        """MB/s, and how many lines were not as they should be."""
        begin = time.monotonic()
        with subprocess.Popen(start + [str(n_ranks), chatter, "tell", str(n_lines)], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as job:
            heard = subprocess.run([chatter, "hear", str(n_ranks), str(n_lines)], stdin=job.stdout,
                                   capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
        if job.returncode:
            raise harness.Failed(f"pulcrun ended with {job.returncode}")
        figures = harness.parse_figures(heard.stdout)
        return n_ranks * n_lines * size_line / 1e6 / (time.monotonic() - begin), figures["bad"]

    s = Series()
    for _ in bench.repetitions():
        rate, bad = measure()
        s.add(pulc=rate, bad=bad)
    return [report.above("job-output", s["pulc"], [], "MB/s", 500),
            report.below("job-output/wrong", s["bad"], [], "lines", 1)]


@case("job-kill")
def job_kill(bench):
    """a job of 1,500 processes, a third of them setsid'ed, is killed: how long until all are gone"""
    mark = f"PULC_BENCH_KILL={os.getpid()}"
    script = ('i=0; while [ $i -lt 500 ]; do sleep 300 & sleep 300 & setsid sleep 300 & i=$((i + 1)); done; '
              'echo ready; wait')

    def msec():
        start, environment = launcher(bench, "pulcrun")
        name, value = mark.split("=")
        environment[name] = value
        process = subprocess.Popen(start + ["1", "sh", "-c", script], env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        process.stdout.readline()
        process.kill()
        return harness.msec_until_gone(process, mark, SECONDS_MAX)

    s = Series()
    for _ in bench.repetitions():
        s.add(pulc=msec())
    return [report.below("job-kill", s["pulc"], [], "ms", 150)]
