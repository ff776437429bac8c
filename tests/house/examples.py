"""Each example of the manual pages is played as it stands there: lines for a shell with the programs that were built, in
a network namespace of its own; C is compiled, that of docs/native.md too; settings are read by psid.

What an example names and nobody has (./solver, a web server) is made here. Prints "ok NAME", "not ok NAME: why" or
"skip NAME: why".
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ["PULC_BUILD"]
MAN = os.path.join(ROOT, "docs", "man")
PLACE = os.environ["TMPDIR"]
SECONDS = 90
KEY_FILE = "/etc/pulc/cluster.key"

# Around a block: every line is said before it is run, and what was started in the background is there before the next.
SHELL = r"""
end() {
	local status=$?
	set +e
	pulcctl stop >/dev/null 2>&1
	kill $(jobs -p) 2>/dev/null
	wait
	exit $status
}
trap end EXIT
serves() { # PORT
	python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()' "$1" 2>/dev/null
}
await() { # COMMAND...
	for _ in $(seq 500); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.02
	done
	echo "not there: $*" >&2
	return 1
}
set -e
"""

# Programs that examples run for their user, and what they are here.
STAND_INS = {
    "solver": "#!/bin/sh\n[ -e \"$1\" ] && echo \"solved $PULC_RANK of $PULC_SIZE\"\n",
    "mpi-program": "#!/bin/sh\necho \"here is $PULC_RANK\"\n",
    "in.dat": "",
}

C_PAGES = """
#include <pulc/block.h>
#include <pulc/job.h>
#include <pulc/pulc.h>
#include <pulc/sem.h>
#include <pulc/tag.h>
void work(void);
long example(void *buf, unsigned long size);
long example(void *buf_, unsigned long size_)
{
	static char buf[512];
	long n = (long)(buf_ != buf) + (long)size_;
	{
%s
	}
	return n;
}
"""

# Of the guide: what its pieces take for given.
C_GUIDE = """
#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include <pulc/block.h>
#include <pulc/job.h>
#include <pulc/pulc.h>
#include <pulc/sem.h>
#include <pulc/tag.h>
extern pulc_port *port;
extern struct pulc_address server;
extern struct pollfd *fds;
extern uint32_t peer;
extern char buf[512], question[512];
extern size_t size, len, size_max, n_fds;
extern void *block;
extern const void *message;
extern struct pulc_address from;
extern int job, answer;
extern pid_t pid;
extern pulc_op *op;
extern pulc_sem *sem;
extern _Bool answered;
extern const struct pulc_tag want;
extern struct pulc_tagged m;
extern uint64_t seen;
extern long n;
extern int i;
%s
void piece(void);
void piece(void)
{
%s
}
"""


def blocks(page):
    """The displays of a page's examples, and the commands that its text shows with .Dl."""
    with open(os.path.join(MAN, page), encoding="utf-8") as file:
        text = file.read()
    examples = re.search(r"^\.Sh EXAMPLES\n(.*?)(?=^\.Sh |\Z)", text, re.M | re.S)
    found = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", examples.group(1), re.M | re.S) if examples else []
    return [b.replace("\\e", "\\").replace("\\&", "") for b in found], re.findall(r"^\.Dl # (.*)$", text, re.M)


def lacking(lines):
    words = re.findall(r"\b(redis-server|redis-benchmark|curl|jq)\b", " ".join(lines))
    return sorted({w for w in words if not shutil.which(w)})


def shell_lines(lines):
    """What bash is to run for them."""
    script = SHELL
    for line in lines:
        script += f"echo {quoted('$ ' + line)}\n"
        port = re.search(r"--port (\d+)", line)
        if "--watch" in line:
            script += f"timeout -s INT 5 {line} || [ $? = 124 ]\n"
        else:
            script += line + "\n"
        if line.endswith("&") and re.search(r"\bpsid &$", line):
            script += "await pulcctl version\n"
        elif line.endswith("&") and port:
            script += f"await serves {port.group(1)}\n"
    return script


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def play(script, place):
    os.makedirs(os.path.join(place, "run"), mode=0o700)
    for name, text in STAND_INS.items():
        with open(os.path.join(place, name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(os.path.join(place, name), 0o755)
    env = dict(os.environ, PATH=f"{BUILD}/bin:{os.environ['PATH']}", PULC_RUNTIME_DIR=f"{place}/run", TMPDIR=place)
    inner = "ip link set lo up\n"
    if "localhost:8080" in script:
        inner += "python3 -m http.server --directory / --bind 127.0.0.1 8080 >/dev/null 2>&1 &\nawait serves 8080\n"
    return subprocess.run(
        ["unshare", "-n" if os.geteuid() == 0 else "-rn", "bash", "-c", script.replace("set -e\n", "set -e\n" + inner, 1)],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
        text=True,
    )


def say(name, result):
    if result.returncode == 0:
        print(f"ok examples.{name}", flush=True)
    else:
        print(f"not ok examples.{name}: status {result.returncode}: {' | '.join(result.stdout.splitlines()[-6:])}", flush=True)


def play_shell(name, text, before=""):
    text = text.replace("/usr/local/lib/libpulc-preload.so", f"{BUILD}/lib/libpulc-preload.so")
    lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    missing = lacking(lines)
    if missing:
        print(f"skip examples.{name}: no {', '.join(missing)} here", flush=True)
        return
    say(name, play(shell_lines(lines).replace("set -e\n", "set -e\n" + before, 1), os.path.join(PLACE, name)))


def compile_c(name, text):
    source = os.path.join(PLACE, f"{name}.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(C_PAGES % text)
    for compiler in (["cc", "-std=c11"], ["c++", "-x", "c++", "-std=c++20", "-Wno-missing-field-initializers", "-Wno-write-strings"]):
        command = compiler + ["-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", f"-I{ROOT}/include", "-c", source, "-o", "/dev/null"]
        if shutil.which(command[0]):
            say(f"{name}.{'c' if compiler[0] == 'cc' else 'cpp'}",
                subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True))


def guide(text):
    """The pieces of C in docs/native.md: what is indented and calls something of ours; several of one section belong together."""
    pieces = []
    for section in re.split(r"^#+ ", text, flags=re.M):
        found = re.findall(r"(?:^(?: {4}|\n(?= {4})).*\n)+", section, re.M)
        found = [textwrap.dedent(piece) for piece in found if re.search(r"^ +.*\bpulc_\w+\(.*;", piece, re.M)]
        if found:
            pieces.append("\n".join(piece.strip("\n") for piece in found))
    return pieces


def compile_guide():
    with open(os.path.join(ROOT, "docs", "native.md"), encoding="utf-8") as file:
        pieces = guide(file.read())
    for number, text in enumerate(pieces, 1):
        text = re.sub(r"^(\s*)\.\.\.(?=\s)", r"\1;", text, flags=re.M)
        function = re.match(r"(.*?^}\n)(.*)", text, re.M | re.S) if text.startswith("static ") else None
        outside, inside = function.groups() if function else ("", text)
        source = os.path.join(PLACE, f"guide_{number}.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(C_GUIDE % (outside, inside))
        command = ["cc", "-std=gnu11", "-Wall", "-Werror", "-Wno-unused-result", "-Wno-unused-variable", f"-I{ROOT}/include", "-c", source, "-o", "/dev/null"]
        say(f"native_md_{number}", subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True))
    if len(pieces) < 6:
        print(f"not ok examples.native_md: {len(pieces)} pieces were found")


def check_settings(name, text):
    path = os.path.join(PLACE, f"{name}.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    command = [f"{BUILD}/bin/psid", "--check-config", "--config", path]
    say(name, subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True))


def check_unit(name, text):
    if not shutil.which("systemd-analyze"):
        print(f"skip examples.{name}: no systemd-analyze here", flush=True)
        return
    path = os.path.join(PLACE, "example.service")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "ExecStart=/bin/true\n")
    result = subprocess.run(["systemd-analyze", "verify", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    if "example.service" in result.stdout:
        result.returncode = result.returncode or 1
    say(name, result)


def change_key(name, commands):
    """In its order; NEW is the name of the key that was added."""
    place = os.path.join(PLACE, name)
    script = SHELL + f"pulcctl keygen {place}/key\n"
    for command in commands:
        script += command.replace(KEY_FILE, f"{place}/key").replace(" NEW ", ' "$NEW" ') + "\n"
        script += f"NEW=$(pulcctl keygen --list {place}/key | tail -n 1 | grep -oE '[0-9a-f]{{8}}')\n"
    say(name, play(script, place))


def main():
    for page in sorted(os.listdir(MAN)):
        stem, section = page.rsplit(".", 1)
        displays, commands = blocks(page)
        for number, text in enumerate(displays, 1):
            name = f"{stem}_{section}_{number}"
            if section == "3":
                compile_c(name, text)
            elif section == "5":
                check_settings(name, text)
            elif text.startswith("["):
                check_unit(name, text)
            elif stem == "pulcctl":
                play_shell(name, text, "psid --daemonize 2>/dev/null\n")
            else:
                play_shell(name, text)
        if commands:
            change_key(f"{stem}_{section}_key", commands)
    compile_guide()
    return 0


sys.exit(main())
