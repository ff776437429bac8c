"""Sets and gets values of many sizes over many connections at once: "redis|memcached PORT CONNECTIONS".

Each connection has keys of its own and knows what stands there. Prints "good CONNECTIONS REQUESTS/s".
"""

import random
import socket
import sys
import threading
import time

N_REQUESTS = 200  # of each connection


class Redis:
    def __init__(self, link):
        self.link, self.file = link, link.makefile("rb")

    def ask(self, *words):
        pieces = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.link.sendall(b"*%d\r\n%s" % (len(words), pieces))

    def set(self, key, value):
        self.ask(b"SET", key, value)
        return self.file.readline() == b"+OK\r\n"

    def get(self, key):
        self.ask(b"GET", key)
        size = int(self.file.readline()[1:])
        return self.file.read(size + 2)[:-2]


class Memcached:
    def __init__(self, link):
        self.link, self.file = link, link.makefile("rb")

    def set(self, key, value):
        self.link.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value))
        return self.file.readline() == b"STORED\r\n"

    def get(self, key):
        self.link.sendall(b"get %s\r\n" % key)
        value = self.file.read(int(self.file.readline().split()[3]) + 2)[:-2]
        self.file.readline()
        return value


def work(kind, port, number):
    chosen = random.Random(number)
    values = {}
    with socket.create_connection(("127.0.0.1", port)) as link:
        store = kind(link)
        for _ in range(N_REQUESTS):
            key = b"k%d_%d" % (number, chosen.randrange(20))
            if key not in values or chosen.random() < 0.5:
                values[key] = chosen.randbytes(chosen.choice((1, 100, 5000, 50_000)))
                if not store.set(key, values[key]):
                    return
            elif store.get(key) != values[key]:
                return
    done.append(number)


def main():
    kind = {"redis": Redis, "memcached": Memcached}[sys.argv[1]]
    n_connections = int(sys.argv[3])
    threads = [threading.Thread(target=work, args=(kind, int(sys.argv[2]), n)) for n in range(n_connections)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("good", len(done), n_connections * N_REQUESTS / (time.monotonic() - begin))


done = []
main()
