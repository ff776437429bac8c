#!/usr/bin/python3
"""Somewhat more than a thousand connections between two processes, all used in turn until /srv/stop is there.

In each round every connection carries a message that no other one has, and brings it back. /srv/rounds has the number
of rounds that are done. Exits with 3 if each byte came back on its connection, in its order; else with 1.
"""

import os
import socket
import sys
import time

N_CONNECTIONS = 1050
SIZE = 16
PAUSE_SEC = 0.05  # between rounds: others are to run as well


def receive(connection):
    got = b""
    while len(got) < SIZE:
        part = connection.recv(SIZE - len(got))
        if not part:
            break
        got += part
    return got


def serve(listener):
    connections = [listener.accept()[0] for _ in range(N_CONNECTIONS)]
    while True:
        for connection in connections:
            message = receive(connection)
            if not message:
                return
            connection.sendall(message)


def use(port):
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(N_CONNECTIONS)]
    n_rounds = n_wrong = 0
    while not os.path.exists("/srv/stop"):
        messages = [b"%08d%08d" % (n_rounds, i) for i in range(N_CONNECTIONS)]
        for connection, message in zip(connections, messages):
            connection.sendall(message)
        n_wrong += sum(receive(c) != m for c, m in zip(connections, messages))
        n_rounds += 1
        with open("/srv/rounds.new", "w") as file:
            file.write("%d\n" % n_rounds)
        os.rename("/srv/rounds.new", "/srv/rounds")
        time.sleep(PAUSE_SEC)
    print("wrong:", n_wrong)
    return 1 if n_wrong else 3


listener = socket.create_server(("127.0.0.1", 0), backlog=N_CONNECTIONS)
child = os.fork()
if child == 0:
    serve(listener)
    os._exit(0)
port = listener.getsockname()[1]
listener.close()
status = use(port)
sys.stdout.flush()
os._exit(status)
