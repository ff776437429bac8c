"""gRPC: "serve PORT", or "call PORT CONNECTIONS", which prints "good CONNECTIONS CALLS/s".

No schema: a message is bytes, answered with its SHA-256 before it. Each connection has many calls under way at a time,
of all four kinds (one message or a stream of them, each way), and messages up to 3 MB, far more than HTTP/2's window.
Some calls have a deadline that the server is told to miss; they must end with it, and disturb no other. "restart PORT
CONNECTIONS PROGRESS" is for a server that is ended and started anew meanwhile: a call that fails
as unavailable is made once more, and whatever comes back must still be right. The file PROGRESS grows by a byte with each
tenth part of the work.
"""

import concurrent.futures
import hashlib
import random
import signal
import sys
import threading
import time

import grpc

N_CALLS = 60  # of each connection ...
N_AT_ONCE = 8  # ... about so many of them at a time
SIZES = (0, 1, 1000, 20_000, 200_000, 3_000_000)
WEIGHTS = (4, 8, 8, 8, 4, 1)
N_PIECES = 5
SECONDS_MAX = 100
SECONDS_LATE = 0.05
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
           ("grpc.so_reuseport", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0),
           ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
           ("grpc.max_reconnect_backoff_ms", 500)]


def signed(data):
    return hashlib.sha256(data).digest() + data


# ---- the server ----------------------------------------------------------------------------------------


def one_one(data, _):
    return signed(data)


def many_one(pieces, _):
    return signed(b"".join(pieces))


def one_many(data, _):
    for _ in range(N_PIECES):
        yield signed(data)


def many_many(pieces, _):
    for piece in pieces:
        yield signed(piece)


def never(_, context):
    ended = threading.Event()
    if context.add_callback(ended.set):
        ended.wait(SECONDS_MAX)
    return b""


def serve(port):
    handlers = {
        "OneOne": grpc.unary_unary_rpc_method_handler(one_one),
        "ManyOne": grpc.stream_unary_rpc_method_handler(many_one),
        "OneMany": grpc.unary_stream_rpc_method_handler(one_many),
        "ManyMany": grpc.stream_stream_rpc_method_handler(many_many),
        "Never": grpc.unary_unary_rpc_method_handler(never),
    }
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(32), options=OPTIONS)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Echo", handlers)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    signal.sigwait({signal.SIGTERM})
    server.stop(None).wait()


# ---- the client ----------------------------------------------------------------------------------------


class Connection:
    def __init__(self, port, number, retries):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
        self.number = number
        self.retries = retries
        self.one_one = self.channel.unary_unary("/Echo/OneOne")
        self.many_one = self.channel.stream_unary("/Echo/ManyOne")
        self.one_many = self.channel.unary_stream("/Echo/OneMany")
        self.many_many = self.channel.stream_stream("/Echo/ManyMany")
        self.never = self.channel.unary_unary("/Echo/Never")
        self.kinds = (self.ask_one_one, self.ask_many_one, self.ask_one_many, self.ask_many_many)

    def ask_one_one(self, data):
        return self.one_one(data, timeout=SECONDS_MAX, wait_for_ready=True) == signed(data)

    def ask_many_one(self, data):
        answer = self.many_one(iter([data] * N_PIECES), timeout=SECONDS_MAX, wait_for_ready=True)
        return answer == signed(data * N_PIECES)

    def ask_one_many(self, data):
        return list(self.one_many(data, timeout=SECONDS_MAX, wait_for_ready=True)) == [signed(data)] * N_PIECES

    def ask_many_many(self, data):
        pieces = [data[:len(data) // (i + 1)] for i in range(N_PIECES)]
        answers = list(self.many_many(iter(pieces), timeout=SECONDS_MAX, wait_for_ready=True))
        return answers == [signed(piece) for piece in pieces]

    def misses_deadline(self):
        try:
            self.never(b"", timeout=SECONDS_LATE, wait_for_ready=True)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.DEADLINE_EXCEEDED or self.is_lost(error)
        return False

    def is_lost(self, error):
        """An end that the restart of a server may give to a call."""
        return self.retries and error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                                                 grpc.StatusCode.UNKNOWN)

    def ask(self, i):
        chosen = random.Random(self.number * N_CALLS + i)
        if i % 10 == 9:
            return self.misses_deadline()
        data = chosen.randbytes(chosen.choices(SIZES, WEIGHTS)[0])
        while True:
            try:
                return self.kinds[i % len(self.kinds)](data)
            except grpc.RpcError as error:
                if not self.is_lost(error):
                    print(f"connection {self.number}, call {i}: {error.code()} {error.details()}", file=sys.stderr)
                    return False


def call(port, n_connections, progress):
    connections = [Connection(port, n, progress is not None) for n in range(n_connections)]
    n_done = 0
    good = [True] * n_connections
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(N_AT_ONCE * n_connections) as pool:
        asked = {}
        for i in range(N_CALLS):
            for connection in connections:
                asked[pool.submit(connection.ask, i)] = connection.number
        for done in concurrent.futures.as_completed(asked):
            good[asked[done]] = done.result() and good[asked[done]]
            n_done += 1
            if progress and n_done % (len(asked) // 10) == 0:
                with open(progress, "a") as file:
                    file.write(".")
    print("good", sum(good), len(asked) / (time.monotonic() - begin), flush=True)
    for connection in connections:
        connection.channel.close()


def main():
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        call(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if sys.argv[1] == "restart" else None)


main()
