"""A service manager as small as psid needs one: a socket that outlives it, and its notifications heard.

Prints test results; service.sh runs it. Every wait has a limit that no healthy machine reaches.
"""
import os
import signal
import socket
import subprocess
import sys
import time

LIMIT = 60
WATCHDOG_USEC = 1000000
binaries, folder = sys.argv[1], os.environ["PULC_RUNTIME_DIR"]
path = os.path.join(folder, "psid.sock")
settings = os.path.join(os.environ["TMPDIR"], "psid.conf")


def check(name, good, why=""):
    print(f"ok service.{name}" if good else f"not ok service.{name}: {why}", flush=True)


def listen(at):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(at)
    s.listen(16)
    return s


class Psid:
    """One psid with what systemd would give it."""

    def __init__(self, given, notify_path):
        def prepare():
            os.dup2(given.fileno(), 3)
            os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
            os.execvp(command[0], command)

        command = [os.path.join(binaries, "psid"), "--config", settings]
        os.environ.update(PULC_SOCKET=path, NOTIFY_SOCKET=notify_path, LISTEN_FDS="1",
                          WATCHDOG_USEC=str(WATCHDOG_USEC))
        self.log = open(os.path.join(os.environ["TMPDIR"], "psid.log"), "w+")
        self.process = subprocess.Popen(command, stderr=self.log, pass_fds=[3], preexec_fn=prepare)

    def said(self):
        self.log.seek(0)
        return self.log.read()


def heard(notify, word):
    """Whether a notification with this word comes; those before it are passed over."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        notify.settimeout(max(0.01, end - time.monotonic()))
        try:
            if word in notify.recv(4096).decode().split("\n"):
                return True
        except socket.timeout:
            break
    return False


def ask(*words):
    return subprocess.run([os.path.join(binaries, "pulcctl"), *words], capture_output=True, text=True,
                          timeout=LIMIT)


def write_settings(text):
    with open(settings, "w") as f:
        f.write(text)


def reloads(notify, psid):
    write_settings("# other\nMaxProcesses=77\nLogLevel=debug\n")
    psid.process.send_signal(signal.SIGHUP)
    check("reload_is_announced", heard(notify, "RELOADING=1") and heard(notify, "READY=1"), "not heard")
    check("reload_takes_effect", '"limit_processes":77' in ask("--json", "status").stdout)
    check("reload_of_level", ask("loglevel").stdout == "debug\n")
    write_settings("# other\nMaxProcesses=many\n")
    answer = ask("reload")
    check("wrong_settings_are_refused", answer.returncode == 1, answer.returncode)
    check("wrong_line_is_named", f"{settings}:2: MaxProcesses=many" in answer.stderr, answer.stderr)
    check("old_settings_stay", '"limit_processes":77' in ask("--json", "status").stdout)
    write_settings("Starter=/elsewhere\nMaxProcesses=78\n")
    answer = ask("--json", "reload")
    check("fixed_settings_are_named", answer.stdout == '{"error":"","waiting":"Starter"}\n', answer.stdout)
    check("others_are_taken", '"limit_processes":78' in ask("--json", "status").stdout)
    check("level_can_be_set", ask("loglevel", "warning").stdout == "warning\n")
    check("no_such_level", ask("loglevel", "loud").returncode == 1)


def ends(psid):
    psid.process.terminate()
    return psid.process.wait(LIMIT)


def main():
    os.environ["PULC_RUNTIME_DIR"] = folder
    given = listen(path)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify_path = os.path.join(folder, "notify")
    notify.bind(notify_path)
    write_settings("")

    psid = Psid(given, notify_path)
    check("ready", heard(notify, "READY=1"), psid.said())
    check("clients_are_served", ask("status").returncode == 0, psid.said())
    check("sign_of_life", heard(notify, "WATCHDOG=1") and heard(notify, "WATCHDOG=1"), "no WATCHDOG=1")
    reloads(notify, psid)
    status = ends(psid)
    check("stopping_is_announced", heard(notify, "STOPPING=1"), "not heard")
    check("ends_well", status == 0, status)
    check("socket_is_left_alone", os.path.exists(path), "removed")

    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(LIMIT)
    client.connect(path)
    client.send(b"\xff" * 8)
    abstract = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    abstract.bind(f"\0pulc-test-{os.getpid()}")
    psid = Psid(given, f"@pulc-test-{os.getpid()}")
    check("ready_by_an_abstract_address", heard(abstract, "READY=1"), psid.said())
    check("knock_between_two_is_heard", client.recv(4096) == b"", "not dropped for its nonsense")
    ends(psid)

    with listen(os.path.join(folder, "other")) as other:
        psid = Psid(other, notify_path)
        check("wrong_socket_is_refused", psid.process.wait(LIMIT) == 1, "it runs")
        check("wrong_socket_is_said", "another socket" in psid.said(), psid.said())


main()
