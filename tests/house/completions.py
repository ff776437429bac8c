#!/usr/bin/env python3
"""What shells make of a line and a tab: each shell runs on a terminal, with the completions of this tree.

    completions.py SHELL     bash, plain-bash (without what Debian's bash-completion changes), zsh or fish; one line for
                             each test: "ok NAME" or "not ok NAME: why"

The pulcctl that completions ask is one that knows two jobs, two nodes, a partition, a port, a client and two keys.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

PATIENCE = 20
NAME = sys.argv[1]
SHELL = NAME.split("-")[-1]
HERE = os.path.join(os.getcwd(), "tools", "completions", SHELL)

PULCCTL = r"""#!/bin/sh
case " $* " in *" --no-headers "* | *" keygen "*) ;; *) echo TITLE STATE ;; esac
case " $* " in
*" jobs "*) printf '1@n1 root p 1 1\n21@n1 root p 1 1\n' ;;
*" nodes "*) printf 'n1 alive\nn2big alive\n' ;;
*" partition "*) printf 'fast root shared\n' ;;
*" ports "*) printf '777 D - 4242 root p\n' ;;
*" sockets "*) printf '4242 p tcp 127.0.0.1:888 127.0.0.1:5 rings\n' ;;
*" clients "*) printf '9 4242 root p\n' ;;
*" keygen "*) printf '0ad4 used\n7eee accepted\n' ;;
esac
"""

# What is typed before the tab, and the line after it.
SAME = None
LINES = [
    ("pulcctl que", "pulcctl queue "),
    ("pulcctl --json que", "pulcctl --json queue "),
    ("pulcctl --pid 1 que", "pulcctl --pid 1 queue "),
    ("pulcctl sockets que", SAME),
    ("pulcctl sockets --pee", "pulcctl sockets --peers "),
    ("pulcctl kill 2", "pulcctl kill 21@n1 "),
    ("pulcctl kill 21@", "pulcctl kill 21@n1 "),
    ("pulcctl kill 1@n1 2", "pulcctl kill 1@n1 21@n1 "),
    ("pulcctl kill 1@n1 --sig", "pulcctl kill 1@n1 --signal "),
    ("pulcctl kill --signal QU", "pulcctl kill --signal QUIT "),
    ("pulcctl kill --signal QUIT 2", "pulcctl kill --signal QUIT 21@n1 "),
    ("pulcctl tasks 2", "pulcctl tasks 21@n1 "),
    ("pulcctl nodes n2", "pulcctl nodes n2big "),
    ("pulcctl drain n2", "pulcctl drain n2big "),
    ("pulcctl undrain n2", "pulcctl undrain n2big "),
    ("pulcctl drain n1 que", SAME),
    ("pulcctl partition cr", "pulcctl partition create "),
    ("pulcctl partition create new n2", "pulcctl partition create new n2big "),
    ("pulcctl partition set f", "pulcctl partition set fast "),
    ("pulcctl partition set fast n2", "pulcctl partition set fast n2big "),
    ("pulcctl partition set fast n1,n2", "pulcctl partition set fast n1,n2big "),
    ("pulcctl partition delete f", "pulcctl partition delete fast "),
    ("pulcctl partition set fast --limit co", "pulcctl partition set fast --limit cores="),
    ("pulcctl partition set fast --owner roo", "pulcctl partition set fast --owner root "),
    ("pulcctl loglevel de", "pulcctl loglevel debug "),
    ("pulcctl sockets --path ke", "pulcctl sockets --path kernel "),
    ("pulcctl sockets --path=ke", "pulcctl sockets --path=kernel "),
    ("pulcctl sockets --port 7", "pulcctl sockets --port 777 "),
    ("pulcctl sockets --port 8", "pulcctl sockets --port 888 "),
    ("pulcctl clients --pid 42", "pulcctl clients --pid 4242 "),
    ("pulcctl jobs --user roo", "pulcctl jobs --user root "),
    ("pulcctl keygen /etc/hostn", "pulcctl keygen /etc/hostname "),
    ("pulcctl keygen --use 7", "pulcctl keygen --use 7eee "),
    ("pulcrun --nodes n2", "pulcrun --nodes n2big "),
    ("pulcrun --nodes n1,n2", "pulcrun --nodes n1,n2big "),
    ("pulcrun --partition f", "pulcrun --partition fast "),
    ("pulcrun --strategy ne", "pulcrun --strategy next "),
    ("pulcrun --strategy=ne", "pulcrun --strategy=next "),
    ("pulcrun --mpi pmix --over", "pulcrun --mpi pmix --oversubscribe "),
    ("pulcrun -n 4 --hostfile /etc/hostn", "pulcrun -n 4 --hostfile /etc/hostname "),
    ("pulcrun --directory /usr/shar", "pulcrun --directory /usr/share/"),
    ("pulcrun -n 4 runnable-", "pulcrun -n 4 runnable-of-ours "),
    ("pulcrun -n 4 cat /etc/hostn", "pulcrun -n 4 cat /etc/hostname "),
    ("pulcrun --tasks=4 cat /etc/hostn", "pulcrun --tasks=4 cat /etc/hostname "),
    ("pulcrun -n 4 pulcctl kill 2", "pulcrun -n 4 pulcctl kill 21@n1 "),
    ("pulcrun cat --over", SAME),
    ("pulc --no", "pulc --no-psid "),
    ("pulc --log /etc/hostn", "pulc --log /etc/hostname "),
    ("pulc --log x runnable-", "pulc --log x runnable-of-ours "),
    ("pulc --no-psid cat /etc/hostn", "pulc --no-psid cat /etc/hostname "),
    ("psid --daem", "psid --daemonize "),
    ("psid --config /etc/hostn", "psid --config /etc/hostname "),
]

BASH_COMPLETION = "/usr/share/bash-completion/bash_completion"
START = {
    "bash": "bind -x '\"\\C-g\": printf \"LINE<%s>\\n\" \"$READLINE_LINE\"; READLINE_LINE='\n"
            "{more}\n"
            "for f in {here}/*; do . $f; done\n",
    "zsh": "fpath=({here} $fpath)\nautoload -Uz compinit\ncompinit -u -D\nunsetopt beep\n"
           "dump() {{ print -r -- \"LINE<$BUFFER>\"; BUFFER= }}\nzle -N dump\nbindkey '^G' dump\n",
}
COMMAND = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


class Terminal:
    """A shell that says its line when it gets ^G."""

    def __init__(self, env):
        self.said = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(COMMAND[SHELL][0], COMMAND[SHELL], dict(env, PS1="", TERM="dumb"))
        more = ":" if NAME != SHELL or not os.path.exists(BASH_COMPLETION) else ". " + BASH_COMPLETION
        self.type(START[SHELL].format(here=HERE, more=more) + "echo re''ady\n")
        self.expect("ready\r?\n")

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern):
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.said)):
            if not select.select([self.fd], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError("no %r, but %r" % (pattern, self.said[-300:]))
            self.said += os.read(self.fd, 65536).decode(errors="replace")
        self.said = self.said[found.end():]
        return found

    def complete(self, line):
        self.type(line + "\t\x07")
        after = self.expect("LINE<([^>]*)>").group(1)
        # After an option zsh puts a "=" that a space takes away.
        return re.sub("( --[a-z]+)=$", "\\1 ", after) if SHELL == "zsh" else after

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Fish:
    """fish says itself what it would offer."""

    def __init__(self, env):
        self.env = env

    def complete(self, line):
        script = 'for f in %s/*.fish; source $f; end; complete -C %s' % (HERE, "'" + line + "'")
        said = subprocess.run(["fish", "--no-config", "-c", script], env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE).stdout.decode()
        # Besides what begins so, fish offers what contains it.
        word = line.split(" ")[-1]
        offered = sorted({o for o in (entry.split("\t")[0] for entry in said.splitlines()) if o.startswith(word)})
        if len(offered) != 1:
            return line if not offered else "%s: %s" % (line, " ".join(offered))
        return line[:len(line) - len(word)] + offered[0] + ("" if offered[0][-1] in "/=" else " ")

    def close(self):
        pass


def main():
    bed = tempfile.mkdtemp()
    for name, text in (("pulcctl", PULCCTL), ("runnable-of-ours", "#!/bin/sh\n")):
        with open(os.path.join(bed, name), "w", encoding="ascii") as out:
            out.write(text)
        os.chmod(os.path.join(bed, name), 0o755)
    env = dict(os.environ, PATH=bed + ":" + os.environ["PATH"], HOME=bed, XDG_CONFIG_HOME=bed, XDG_DATA_HOME=bed, LC_ALL="C.UTF-8")
    shell = Fish(env) if SHELL == "fish" else Terminal(env)
    for line, after in LINES:
        if "pulcrun -n 4 pulcctl" in line and SHELL == "bash" and (NAME != SHELL or not os.path.exists(BASH_COMPLETION)):
            continue  # bash knows of itself nothing of commands in commands
        name = "completions.%s.%s" % (NAME, re.sub("[^A-Za-z0-9@=,.]+", "_", line))
        try:
            got = shell.complete(line)
        except (TimeoutError, subprocess.TimeoutExpired) as e:
            print("not ok %s: %s" % (name, e))
            break
        if got == (after or line):
            print("ok " + name)
        else:
            print("not ok %s: expected %r, got %r" % (name, after or line, got))
    shell.close()
    shutil.rmtree(bed)


main()
