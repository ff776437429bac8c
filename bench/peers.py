"""Other people's message layers between two processes of one node, each by the best way that it has: UCX, libfabric, Open MPI, MPICH.

They are on the two processors on which PULC is measured, and spin, as they do unless told otherwise. Each run is bounded in time. One
that is not installed, or does not run here, raises harness.Failed and is no failure of ours.
"""

import os
import pathlib
import signal
import subprocess

import harness

SECONDS = 30
MPI_SOURCE = pathlib.Path(__file__).parent / "mpi" / "pingpong.c"
MPI_COMPILERS = {"openmpi": "mpicc.openmpi", "mpich": "mpicc.mpich"}
# Launchers, and the ways over memory that each has; what the first cannot do here the next may.
MPI_SHARED = {
    "openmpi": (["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
                 "--mca", "btl", "vader,self"], ({}, {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"})),
    "mpich": (["mpiexec.mpich"], ({"UCX_TLS": "posix,cma,self"}, {"UCX_TLS": "posix,self"})),
}
UCX_WAYS = ("posix,self", "posix,cma,self")


def end_group(process):
    """A launcher ends its ranks if it is asked to; some leave theirs when they are killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=5)
            return
        except subprocess.TimeoutExpired:
            pass
        except ProcessLookupError:
            break
    process.wait()


def said_by(command, env, cpu=None, seconds=SECONDS):
    """What a command of other people's says within its time."""
    pin = None if cpu is None else lambda: os.sched_setaffinity(0, {cpu})
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, start_new_session=True, preexec_fn=pin) as process:
        try:
            said, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end_group(process)
            raise harness.Failed(f"{command[0]} took longer than {seconds} s") from None
    if process.returncode:
        raise harness.Failed(f"{command[0]}: {(errors or said).strip()[-200:]}")
    return said


def both_ends(bench, command, port, client_command, cpus=None):
    """A server on the one processor, and what its client on the other one says."""
    env = bench.environment(False)
    server_cpu, client_cpu = cpus or (bench.machine.server, bench.machine.client)
    server = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {server_cpu}))
    try:
        harness.wait_until(lambda: harness.listening(port) or server.poll() is not None, f"{command[0]} listening")
        return said_by(client_command, env, client_cpu)
    finally:
        harness.stop(server)


def best(ways, once):
    """The best figure of several ways, of which some may not work here."""
    figures, failure = [], None
    for way in ways:
        try:
            figures.append(once(way))
        except harness.Failed as failed:
            failure = failed
    if not figures:
        raise failure
    return max(figures)


# ---- UCX -------------------------------------------------------------------------------------------

def ucx(bench, test, size=8, n=200000, way=UCX_WAYS[0], cpus=None):
    """The fields of ucx_perftest's line: number, us in the middle ... MB/s, messages a second."""
    port = harness.free_port()
    command = ["env", f"UCX_TLS={way}", harness.tool("ucx_perftest"), "-p", str(port), "-t", test, "-s", str(size), "-n", str(n),
               "-w", str(max(n // 20, 1)), "-f"]
    for line in both_ends(bench, command, port, [*command, "127.0.0.1"], cpus).splitlines():
        fields = line.split()
        if fields[:1] == [str(n)]:
            return fields
    raise harness.Failed("ucx_perftest said nothing")


def ucx_nsec(bench, kind):
    return float(ucx(bench, f"{kind}_lat")[1]) * 1000


def ucx_rate(bench, kind):
    return float(ucx(bench, f"{kind}_bw")[-1]) / 1e6


def ucx_gbs(bench, size):
    n = (2 << 30) // size
    return best(UCX_WAYS, lambda way: float(ucx(bench, "tag_bw", size, n, way)[5]) * (1 << 20) / 1e9)


# ---- libfabric -------------------------------------------------------------------------------------

def fabric(bench, size, n):
    """fi_pingpong's ns one way."""
    port = harness.free_port()
    command = [harness.tool("fi_pingpong"), "-e", "rdm", "-p", "shm", "-S", str(size), "-I", str(n)]
    said = both_ends(bench, [*command, "-B", str(port)], port, [*command, "-P", str(port), "127.0.0.1"])
    for line in said.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[0] != "bytes":
            return float(fields[6]) * 1000
    raise harness.Failed("fi_pingpong said nothing")


def fabric_nsec(bench):
    return fabric(bench, 8, 100000)


def fabric_gbs(bench, size):
    """It has nothing but a ping-pong: one message under way."""
    return size / fabric(bench, size, (1 << 29) // size)


# ---- MPI -------------------------------------------------------------------------------------------

def mpi_program(name):
    """Compiled with the compiler of that MPI."""
    compiler = harness.tool(MPI_COMPILERS[name])
    harness.tool(MPI_SHARED[name][0][0])
    program = harness.BUILD / "bench" / f"mpi-{name}"
    subprocess.run([compiler, "-O2", "-D_GNU_SOURCE", "-o", program, MPI_SOURCE], check=True)
    return program


def mpi(bench, name, what, *arguments, n=2, cpus=None, way=None):
    """The figure that bench/mpi/pingpong.c prints."""
    launcher, ways = MPI_SHARED[name]
    server, client = cpus or (bench.machine.server, bench.machine.client)
    env = {**bench.environment(False), **(ways[0] if way is None else way)}
    said = said_by([*launcher, "-n", str(n), mpi_program(name), str(server), str(client), what, *map(str, arguments)], env)
    for figure in ("one_way_ns", "gbs", "mps", "message_ns"):
        if figure in harness.parse_figures(said):
            return harness.parse_figures(said)[figure]
    raise harness.Failed(f"{name} said nothing")


def mpi_nsec(bench, name):
    return -best(MPI_SHARED[name][1], lambda way: -mpi(bench, name, "pingpong", way=way))


def mpi_rate(bench, name):
    return best(MPI_SHARED[name][1], lambda way: mpi(bench, name, "rate", 8, 64, way=way))


def mpi_gbs(bench, name, size):
    return best(MPI_SHARED[name][1], lambda way: mpi(bench, name, "bandwidth", size, 8, way=way))
