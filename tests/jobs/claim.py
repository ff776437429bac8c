#!/usr/bin/env python3
"""Says to a psid that it keeps jobs, as keepers do after a restart.

    claim.py SOCKET JOB...     a connection for each; prints "heard N" when psid has heard all, and stays until its input ends
    claim.py --one SOCKET JOB...     all on one connection; prints "closed" or "open"
    claim.py --version N SOCKET      a keeper of that version; prints "heard" and then stays, until its input ends, or "refused"
    claim.py --tasks N SOCKET JOB...     as the first, and each has so many tasks
"""
import socket
import sys

HELLO, KEEP, STATUS = 1, 41, 20
ROLE_KEEPER = 2


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def call(path, version):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(30)
    s.connect(path)
    s.send(text(HELLO, number(1, version) + number(2, ROLE_KEEPER) + text(3, b"keeper")))
    return s


def connect(path):
    s = call(path, 1)
    s.recv(65536)
    return s


def keep(s, job, n_tasks=1):
    s.send(text(KEEP, text(1, job.encode()) + number(2, 1) + number(3, n_tasks) + number(4, n_tasks) + text(5, b"liar") + number(7, 1)))


def is_open(s):
    """Has psid read all of it, and not hung up?"""
    try:
        s.send(text(STATUS, b""))
        return s.recv(65536) != b""
    except OSError:
        return False


if sys.argv[1] == "--one":
    one = connect(sys.argv[2])
    try:
        for j in sys.argv[3:]:
            keep(one, j)
    except OSError:
        pass
    print("open" if is_open(one) else "closed")
elif sys.argv[1] == "--version":
    other = call(sys.argv[3], int(sys.argv[2]))
    # Nobody answers one who is let be; psid has heard it when it has answered somebody who came later.
    connect(sys.argv[3])
    other.setblocking(False)
    try:
        print("refused" if other.recv(65536) else "closed", flush=True)
    except BlockingIOError:
        print("heard", flush=True)
        sys.stdin.read()
else:
    tasks = 1
    if sys.argv[1] == "--tasks":
        tasks = int(sys.argv[2])
        del sys.argv[1:3]
    all_of_them = [connect(sys.argv[1]) for _ in sys.argv[2:]]
    for s, j in zip(all_of_them, sys.argv[2:]):
        keep(s, j, tasks)
    print("heard", sum(is_open(s) for s in all_of_them), flush=True)
    sys.stdin.read()
