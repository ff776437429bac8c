#!/usr/bin/env python3
"""Somebody who can reach a psid's port and should not be there.

    stranger.py garbage ADDRESS    random datagrams, and connections that say nothing of use
    stranger.py version ADDRESS N  greets in version N, which is not spoken there; prints its greeting
    stranger.py crowd ADDRESS N    N connections that never say anything; prints how many were ended, and how much of a
                                   greeting one more got that came when they were there
"""
import os
import random
import select
import socket
import struct
import sys

PORT = 7852
SIZE_GREETING = 52


def connect(address):
    return socket.create_connection((address, PORT), timeout=20)


def greeting(version, cluster=b"lab", fingerprint=bytes(8)):
    head = b"PULC" + struct.pack(">HHB", version, version, 0) + fingerprint + cluster
    return head.ljust(SIZE_GREETING, b"\0")


def garbage(address):
    random.seed(1)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for i in range(3000):
        data = bytearray(random.randbytes(random.randrange(0, 1500)))
        if data and i % 2:
            data[0] = 3  # the version that is spoken
        udp.sendto(data, (address, PORT))
    for size in (0, 1, 51, 52, 53, 5000, 1 << 20):
        with connect(address) as tcp:
            try:
                tcp.sendall(random.randbytes(size))
                tcp.shutdown(socket.SHUT_WR)
                while tcp.recv(65536):
                    pass
            except OSError:
                pass
    # A right greeting, as anybody can copy it, and then no TLS.
    with connect(address) as tcp:
        theirs = tcp.recv(SIZE_GREETING, socket.MSG_WAITALL)
        tcp.sendall(theirs + random.randbytes(10000))
        try:
            while tcp.recv(65536):
                pass
        except OSError:
            pass
    print("done")


def version(address, spoken):
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.sendto(bytes([9]) + bytes(100), (address, PORT))
    with connect(address) as tcp:
        tcp.sendall(greeting(spoken))
        theirs = tcp.recv(SIZE_GREETING, socket.MSG_WAITALL)
        rest = tcp.recv(1)
    print(theirs[:4].decode(), *struct.unpack(">HH", theirs[4:8]), len(rest))


def crowd(address, n):
    silent = []
    for _ in range(n):
        try:
            silent.append(connect(address))
        except OSError:
            break
    with connect(address) as one_more:
        greeted = len(one_more.recv(SIZE_GREETING, socket.MSG_WAITALL))
    poll = select.poll()
    for tcp in silent:
        poll.register(tcp, select.POLLRDHUP | select.POLLHUP)
    ended = set()
    while len(ended) < len(silent):
        ready = poll.poll(15000)
        if not ready:
            break
        for fd, _ in ready:
            poll.unregister(fd)
            ended.add(fd)
    print(len(silent), len(ended), greeted)


if __name__ == "__main__":
    what, where = sys.argv[1:3]
    if what == "garbage":
        garbage(where)
    else:
        {"crowd": crowd, "version": version}[what](where, int(sys.argv[3]))
