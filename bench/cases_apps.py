"""Applications as they are, on the kernel and under PULC: servers on one processor, their load on another.

A program that is not installed is left out, as a guest: `tools/deps.sh bench-apps` installs them all.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness
import peers
import report
from cases import Series, case

N_CONNECTIONS = 50
NGINX_CONF = """
{user}
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
events {{ worker_connections 1000; }}
http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def has(*names):
    try:
        return all(harness.tool(name) for name in names)
    except harness.Failed:
        return False


def compare(bench, name, once, unit, goal, n_upgrades_least):
    """once(bench, pulc) returns a rate; PULC's must be `goal` times the kernel's."""
    s = Series()
    for _ in bench.repetitions(3):
        s.add(kernel=once(bench, False))
        before = bench.psid.n_upgrades()
        s.add(pulc=once(bench, True))
        n = bench.psid.n_upgrades() - before
        if n < n_upgrades_least:
            s.note = f"not over rings: {n} of {n_upgrades_least} connections were upgraded"
    return s.judge(report.at_least(name, s["pulc"], s["kernel"], unit, goal, "kernel"))


def memcached_once(bench, pulc):
    port = harness.free_port()
    user = ["-u", "root"] if os.geteuid() == 0 else []
    server = bench.server([harness.tool("memcached"), *user, "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1"],
                          port, pulc)
    try:
        said = harness.output_of(bench.client([harness.BUILD / "bench" / "memcached", "--port", str(port), "--msec",
                                               bench.msec(1000), "--connections", str(N_CONNECTIONS)], pulc))
    finally:
        harness.stop(server)
    return harness.parse_figures(said)["answers_per_second"] / 1000


@case("memcached")
def memcached(bench):
    """memcached: get of 100 B, 50 connections with one request each under way"""
    if not has("memcached"):
        return []
    return compare(bench, "memcached", memcached_once, "k/s", 2.5, N_CONNECTIONS)


def nginx_once(bench, pulc):
    port = harness.free_port()
    folder = tempfile.mkdtemp(prefix="pulc-bench-nginx-")
    conf = pathlib.Path(folder, "nginx.conf")
    conf.write_text(NGINX_CONF.format(folder=folder, port=port, user="user root;" if os.geteuid() == 0 else ""))
    pathlib.Path(folder, "file").write_bytes(b"x" * 100)
    try:
        server = bench.server([harness.tool("nginx"), "-c", conf, "-e", f"{folder}/error.log"], port, pulc)
        try:
            said = harness.output_of(bench.client(
                [harness.tool("wrk"), "-t", "1", "-c", str(N_CONNECTIONS), "-d", "1s" if bench.quick else "2s",
                 f"http://127.0.0.1:{port}/file"], pulc))
        finally:
            harness.stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rate = re.search(r"Requests/sec:\s*([\d.]+)", said)
    if not rate or "Non-2xx" in said:
        raise harness.Failed(f"wrk: {said[-300:]}")
    return float(rate[1]) / 1000


@case("nginx")
def nginx(bench):
    """nginx: a file of 100 B, 50 connections that wrk keeps alive"""
    if not has("nginx", "wrk"):
        return []
    return compare(bench, "nginx", nginx_once, "k/s", 2, N_CONNECTIONS)


class Postgres:
    """A database that lives while a case runs; its server is started anew for each path."""

    def __init__(self):
        self.programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        self.folder = tempfile.mkdtemp(prefix="pulc-bench-postgres-")
        self.user = []
        if os.geteuid() == 0:  # it refuses to run as root
            self.user = [harness.tool("setpriv"), "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            shutil.chown(self.folder, "nobody", "nogroup")
        subprocess.run([*self.user, self.programs / "initdb", "-D", f"{self.folder}/data", "-U", "bench", "-A", "trust",
                        "--no-sync", "--no-locale"], check=True, capture_output=True)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def once(self, bench, pulc):
        port = harness.free_port()
        server = bench.server([*self.user, self.programs / "postgres", "-F", "-D", f"{self.folder}/data", "-p", str(port),
                               "-k", "", "-h", "127.0.0.1"], port, pulc)
        command = [*self.user, self.programs / "pgbench", "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "-n"]
        ready = [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        try:
            harness.wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, "the start of postgres")
            harness.output_of(bench.client([*command, "-i", "-q", "postgres"], False))
            said = harness.output_of(bench.client([*command, "-S", "-c", "8", "-j", "1", "-T",
                                                   "1" if bench.quick else "3", "postgres"], pulc))
        finally:
            harness.stop(server)
        return float(re.search(r"tps = ([\d.]+)", said)[1]) / 1000


@case("postgres")
def postgres(bench):
    """PostgreSQL: pgbench -S over TCP, 8 connections"""
    if not list(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench")):
        return []
    database, usual = Postgres(), bench.psid
    try:
        with harness.Psid(all_users=os.geteuid() == 0) as bench.psid:
            return compare(bench, "postgres", database.once, "k/s", 1.3, 8)
    finally:
        bench.psid = usual
        database.close()


# How each MPI is told to use TCP over the loopback and nothing else.
MPIS = {
    "openmpi": ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"],
    "mpich": ["env", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "mpiexec.mpich"],
}


def mpi_once(bench, launcher, program, pulc):
    """The launcher is on the kernel; the ranks get the environment of the path."""
    env = [f"{name}={value}" for name, value in bench.environment(pulc).items()
           if name.startswith("PULC_") or name == "LD_PRELOAD"]
    said = peers.said_by([*launcher, "-n", "2", "env", *env, program, str(bench.machine.server), str(bench.machine.client)],
                         bench.environment(False), seconds=harness.SECONDS_TO_RUN)
    if "one_way_ns" not in said:
        raise harness.Failed(f"{launcher[0]} said nothing")
    return harness.parse_figures(said)["one_way_ns"]


@case("mpi")
def mpi(bench):
    """Open MPI (btl tcp) and MPICH (UCX over TCP): 8 B one way between two ranks"""
    rows = []
    for name, launcher in MPIS.items():
        if not has(peers.MPI_COMPILERS[name], launcher[0]):
            continue
        program = peers.mpi_program(name)
        s = Series()
        for _ in bench.repetitions(3):
            before = bench.psid.n_upgrades()
            s.add(kernel=mpi_once(bench, launcher, program, False), pulc=mpi_once(bench, launcher, program, True))
            if bench.psid.n_upgrades() == before:
                s.note = "not over rings: nothing was upgraded"
        rows += s.judge(report.faster(f"mpi/{name}", s["pulc"], s["kernel"], "ns", 5, "kernel"))
    return rows
