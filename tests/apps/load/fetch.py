"""Fetches files over many kept-alive connections: "PORT FOLDER CONNECTIONS PROGRESS".

What is fetched must be what stands in the folder. A server that is being reloaded may close a connection
that waits for a request: the request is sent once more then, over a new one, as HTTP has it. The file
PROGRESS grows by a byte with each tenth part of the work. Prints "good CONNECTIONS MB/s".
"""

import http.client
import os
import random
import sys
import threading
import time

N_REQUESTS = 60  # of each connection
N_TRIES = 5
CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


def fetch(link, name):
    for _ in range(N_TRIES):
        try:
            link.request("GET", "/" + name)
            answer = link.getresponse()
        except CLOSED:
            link.close()
            continue
        return answer.status, answer.read()
    return 0, b""


def work(port, files, number):
    chosen = random.Random(number)
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    for _ in range(N_REQUESTS):
        name = chosen.choice(sorted(files))
        status, body = fetch(link, name)
        if status != 200 or body != files[name]:
            print(f"connection {number}: {name}: status {status}, {len(body)} bytes", file=sys.stderr)
            return
        tell(len(body))
    link.close()
    done.append(number)


def tell(size):
    with lock:
        sizes.append(size)
        if len(sizes) % (n_connections * N_REQUESTS // 10) == 0:
            with open(sys.argv[4], "a") as file:
                file.write(".")


def read_files(folder):
    files = {}
    for name in os.listdir(folder):
        if name.startswith("file"):
            with open(os.path.join(folder, name), "rb") as file:
                files[name] = file.read()
    return files


done, sizes, lock = [], [], threading.Lock()
n_connections = int(sys.argv[3])
contents = read_files(sys.argv[2])
threads = [threading.Thread(target=work, args=(int(sys.argv[1]), contents, n)) for n in range(n_connections)]
begin = time.monotonic()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("good", len(done), sum(sizes) / (time.monotonic() - begin) / 1e6)
