"""The readers of metrics.sh: one that is as it should be, and many that are not."""

import concurrent.futures
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time

from prometheus_client.openmetrics.parser import text_string_to_metric_families

BIN = os.environ["PULC_BUILD"] + "/bin/"
TMP = os.environ["TMPDIR"]
LIMIT = 60  # seconds that anything may take on a machine that does much else
N_PLACES = 128  # connections at a time, as docs/metrics.md says

# Two ends of a connection that say a little until our end of a pipe is closed.
PAIR = """
import os, select, socket, sys
a = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    c = socket.create_connection(a.getsockname())
    while c.recv(1):
        c.sendall(b"x")
else:
    c, _ = a.accept()
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        c.sendall(b"x")
        c.recv(1)
"""


def check(name, expected, actual):
    if expected == actual:
        print(f"ok metrics.{name}", flush=True)
    else:
        print(f"not ok metrics.{name}: expected {expected!r}, got {actual!r}", flush=True)


def comes(name, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            print(f"not ok metrics.{name}: it did not come true", flush=True)
            return
        time.sleep(0.05)
    print(f"ok metrics.{name}", flush=True)


class Psid:
    def __init__(self, name, settings):
        self.folder = f"{TMP}/{name}"
        os.mkdir(self.folder, 0o700)
        self.config = f"{self.folder}.conf"
        self.configure(settings)
        self.environ = dict(os.environ, PULC_RUNTIME_DIR=self.folder + "/run")
        self.log = f"{self.folder}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BIN + "psid", "--config", self.config],
                stderr=log,
                env=dict(self.environ, PULC_IDLE_EXIT_SEC="0"),
            )
        end = time.monotonic() + LIMIT
        while not self.said(" serves ") and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def configure(self, settings):
        with open(self.config, "w", encoding="ascii") as config:
            config.write(settings)

    def said(self, what):
        with open(self.log, encoding="utf-8") as log:
            return next((line for line in log if what in line), "")

    def ctl(self, *words):
        return subprocess.run(
            [BIN + "pulcctl", *words], env=self.environ, capture_output=True, text=True, timeout=LIMIT
        )

    def stop(self):
        self.process.terminate()
        return self.process.wait(LIMIT)


def ask(port, method="GET", path="/metrics"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        connection.close()


def families(port):
    return {f.name: f for f in text_string_to_metric_families(ask(port)[2])}


def value(port, name, **labels):
    for family in families(port).values():
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def connect(port, words):
    there = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
    there.sendall(words)
    return there


def answer_to(port, words):
    """What is answered before the connection ends, however it does."""
    answer = b""
    try:
        with connect(port, words) as there:
            there.shutdown(socket.SHUT_WR)
            while more := there.recv(65536):
                answer += more
    except (ConnectionResetError, BrokenPipeError, OSError) as error:
        if isinstance(error, TimeoutError):
            return b"nothing"
    return answer


def what_they_say(psid, port):
    status, kind, _ = ask(port)
    check("answers", 200, status)
    check("type", "application/openmetrics-text; version=1.0.0; charset=utf-8", kind)
    now = families(port)
    with open("docs/metrics.md", encoding="utf-8") as text:
        documented = dict(re.findall(r"^\| `(pulc_\w+?)(?:_total|_info)?` \| (\w+) \|", text.read(), re.M))
    check("documented_are_there", documented, {f.name: f.type for f in now.values()})
    with open("psid/wire/client.proto", encoding="utf-8") as proto:
        reasons = re.findall(r"^  REASON_(\w+) = ", proto.read(), re.M)
    reasons = sorted(r.lower().replace("_", "-") for r in reasons if r != "NONE")
    for name in "pulc_denied_upgrades", "pulc_refused_clients":
        check(name + "_by_reason", reasons, sorted(s.labels["reason"] for s in now[name].samples))
    check("alone_in_the_cluster", 1, value(port, "pulc_nodes", state="alive"))
    check("no_node_is_dead", 0, value(port, "pulc_nodes", state="dead"))
    check("not_elsewhere", 404, ask(port, path="/")[0])
    check("head", (200, ""), ask(port, "HEAD")[::2])
    check("only_read", 405, ask(port, "POST")[0])


def what_happens_is_counted(psid, port):
    status = json.loads(psid.ctl("--json", "status").stdout)
    check("no_upgrade_yet", 0, value(port, "pulc_upgrades_total"))
    pair = subprocess.Popen(
        [BIN + "pulc", sys.executable, "-c", PAIR], env=psid.environ, stdin=subprocess.PIPE
    )
    comes("connection_is_counted", lambda: value(port, "pulc_connections") == 1)
    check("upgrade_is_counted", 1, value(port, "pulc_upgrades_total"))
    check("clients_are_counted", 2, value(port, "pulc_clients"))
    comes(
        "ring_is_used",
        lambda: any(int(s["size_sent"]) for s in json.loads(psid.ctl("--json", "sockets").stdout)),
    )
    check("memory_is_counted", True, value(port, "pulc_memory_bytes") > status["size_bytes"])
    pair.stdin.close()
    pair.wait(LIMIT)
    comes("end_is_counted", lambda: value(port, "pulc_connections") == value(port, "pulc_clients") == 0)
    check("ring_bytes_are_counted", True, value(port, "pulc_ring_bytes_total") > 0)
    check("traffic_is_counted", value(port, "pulc_ring_bytes_total"), value(port, "pulc_traffic_bytes_total"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
        there.settimeout(LIMIT)
        there.connect(psid.folder + "/run/psid.sock")
        there.sendall(b"\xff" * 40)
        comes("nonsense_is_counted", lambda: value(port, "pulc_malformed_messages_total") == 1)
    job = subprocess.Popen(
        [BIN + "pulcrun", "cat"], env=psid.environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    comes("tasks_are_counted", lambda: (value(port, "pulc_jobs"), value(port, "pulc_tasks")) == (1, 1))
    job.stdin.close()
    check("job_ends", 0, job.wait(LIMIT))
    comes("jobs_end_is_counted", lambda: (value(port, "pulc_jobs"), value(port, "pulc_tasks")) == (0, 0))


def bad_readers(psid, port):
    for name, words in (
        ("garbage", os.urandom(4096)),
        ("no_words", b""),
        ("zeros", bytes(4096)),
        ("endless_path", b"GET /" + b"a" * 200000),
        ("endless_header", b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200000),
        ("wrong_lengths", b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -7\r\n\r\n"),
        ("huge_body", b"PUT /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n" + b"a" * 100000),
    ):
        answer = answer_to(port, words)
        check(name + "_gets_nothing", False, b" 200 " in answer or answer == b"nothing")
        check(name + "_is_survived", 200, ask(port)[0])


def many_readers(psid, port):
    with concurrent.futures.ThreadPoolExecutor(50) as crowd:
        answers = list(crowd.map(lambda _: ask(port), range(200)))
    check("all_of_a_crowd_are_answered", [200] * 200, [a[0] for a in answers])
    check("in_full", 200, sum(bool(list(text_string_to_metric_families(a[2]))) for a in answers))
    # Whole requests whose answer nobody reads.
    deaf = [connect(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20) for _ in range(50)]
    check("deaf_readers_are_survived", 200, ask(port)[0])
    check("psid_serves_meanwhile", 0, psid.ctl("status").returncode)
    for there in deaf:
        there.close()
    # Half a request, from a few, then from more than there are places.
    slow = [connect(port, b"GET /metr") for _ in range(20)]
    check("some_halves_are_survived", 200, ask(port)[0])
    slow += [connect(port, b"GET /metr") for _ in range(N_PLACES + 50)]
    check("psid_serves_beside_halves", 0, psid.ctl("status").returncode)
    check("halves_are_given_up", 200, ask(port)[0])
    check("first_half_ended", b"", slow[0].recv(1))
    for there in slow:
        there.close()
    check("all_is_well_again", 200, ask(port)[0])


def first():
    """A psid at a port that was free a moment ago."""
    for i in range(20):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        psid = Psid(f"first{i}", f"Metrics=127.0.0.1:{port}\n")
        if psid.said("metrics at http://127.0.0.1:"):
            return psid, port
        psid.stop()
    sys.exit("no port is free")


def settings():
    psid, port = first()
    second = Psid("second", f"Metrics={port}\n")
    check("taken_port_is_said", True, f"Metrics 127.0.0.1:{port}: Address already in use" in second.said("going on without"))
    check("serves_without", 0, second.ctl("status").returncode)
    second.configure("Metrics=off\n")
    check("waits_for_a_restart", True, "Metrics" in "".join(map(str, vars(second.ctl("reload")).values())))
    check("second_ends", 0, second.stop())
    for wrong in "nonsense", "-1", "65536", "10.0.0.1:x", "0.0.0.0:0", "":
        second.configure(f"\nMetrics={wrong}\n")
        said = subprocess.run(
            [BIN + "psid", "--check-config", "--config", second.config], capture_output=True, text=True, timeout=LIMIT
        )
        check(f"wrong_setting_{wrong}", (1, True), (said.returncode, f"second.conf:2: Metrics={wrong}:" in said.stderr))
    return psid, port


def main():
    psid, port = settings()
    try:
        for part in what_they_say, what_happens_is_counted, bad_readers, many_readers:
            part(psid, port)
        check("ends", 0, psid.stop())
    finally:
        psid.process.kill()


main()
