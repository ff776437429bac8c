"""The test bed: a psid of our own in a folder of its own, and what pulcctl says of it.

Used by the scripts of tests/preload, tests/stress and tests/apps. Nothing here outlives Bed.close():
psid is ended by its process, the folder removed.
"""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("PULC_BUILD") or os.path.join(ROOT, "build")
PSID = os.path.join(BUILD, "bin", "psid")
PULCCTL = os.path.join(BUILD, "bin", "pulcctl")
PRELOAD = os.path.join(BUILD, "lib", "libpulc-preload.so")


def clean_environment(extra=None):
    """The caller's environment without anything of PULC's, plus extra."""
    kept = ("PULC_BUILD", "PULC_TEST_DIR")
    env = {k: v for k, v in os.environ.items() if not k.startswith("PULC_") or k in kept}
    env.pop("LD_PRELOAD", None)
    env.update(extra or {})
    return env


def await_true(condition, seconds=5.0, pause=0.01):
    """Polls for what nothing announces. Returns the condition's last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(pause)


def play_all(play, items, jobs):
    """play(item) for each, so many at once. Raises what one of them raises: an item that was not played is no item that passed."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(play, items):
            pass


class Bed:
    """A folder and a psid. settings: psid's, as environment (PULC_...). system: one that serves all users; needs root."""

    def __init__(self, settings=None, system=False):
        self.settings = dict(settings or {})
        self.command = [PSID, "--system"] if system else [PSID]
        # Other users must find the way there: not below a folder of ours alone.
        self.folder = tempfile.mkdtemp(prefix="pulc-bed.", dir="/tmp" if system else None)
        self.run = os.path.join(self.folder, "run")
        os.mkdir(self.run, 0o700)
        if system:
            os.chmod(self.folder, 0o755)
            os.chmod(self.run, 0o755)
        self.psid = None
        self.psid_log = os.path.join(self.folder, "psid.log")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        env = clean_environment({"PULC_RUNTIME_DIR": self.run})
        env.update(self.settings)
        with open(self.psid_log, "ab") as log:
            self.psid = subprocess.Popen(self.command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if not await_true(lambda: self.psid.poll() is not None or self.status() is not None):
            raise RuntimeError("psid does not answer")
        if self.psid.poll() is not None:
            with open(self.psid_log, errors="replace") as log:
                raise RuntimeError("psid ended: " + log.read()[-500:])

    def kill(self, how=signal.SIGKILL):
        if self.psid:
            self.psid.send_signal(how)
            self.psid.wait()
            self.psid = None

    def close(self):
        """Returns what psid ended with: 0, or what is wrong."""
        result = 0
        if self.psid:
            self.psid.send_signal(signal.SIGCONT)
            self.psid.terminate()
            try:
                result = self.psid.wait(5)
            except subprocess.TimeoutExpired:
                self.psid.kill()
                self.psid.wait()
                result = "psid does not end"
            self.psid = None
        shutil.rmtree(self.folder, ignore_errors=True)
        return result

    def environment(self, extra=None):
        """For a program under the shim."""
        env = clean_environment({"PULC_RUNTIME_DIR": self.run, "LD_PRELOAD": PRELOAD})
        env.update(extra or {})
        return env

    def ask(self, *words):
        """pulcctl's JSON answer, None if there is none."""
        env = clean_environment({"PULC_RUNTIME_DIR": self.run})
        try:
            answer = subprocess.run([PULCCTL, "--json", *words], env=env, capture_output=True, timeout=10)
        except subprocess.TimeoutExpired:
            return None
        if answer.returncode != 0:
            return None
        return json.loads(answer.stdout)

    def status(self):
        return self.ask("status")

    def sockets(self, *options):
        answer = self.ask(*options, "sockets")
        if isinstance(answer, dict):
            answer = answer.get("sockets", [])
        return answer or []
