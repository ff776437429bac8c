"""An echo over asyncio's streams: "serve PORT", or "call PORT CONNECTIONS", which prints "good CONNECTIONS MB/s"."""

import asyncio
import random
import sys
import time

N_ROUNDS = 60
SIZE = 100_000  # of a round of a connection, in each direction


async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def send(writer, chosen, data):
    at = 0
    while at < len(data):
        size = chosen.choice((1, 100, 5000, 100_000))
        writer.write(data[at:at + size])
        at += size
        await writer.drain()


async def call(port, number):
    chosen = random.Random(number)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    good = True
    for _ in range(N_ROUNDS):
        data = chosen.randbytes(SIZE)
        got, _ = await asyncio.gather(reader.readexactly(SIZE), send(writer, chosen, data))
        good = good and got == data
    writer.write_eof()
    good = good and await reader.read() == b""
    writer.close()
    return good


async def main():
    port = int(sys.argv[2])
    if sys.argv[1] == "serve":
        server = await asyncio.start_server(echo, "127.0.0.1", port, backlog=200)
        await server.serve_forever()
    n_connections = int(sys.argv[3])
    begin = time.monotonic()
    good = sum(await asyncio.gather(*(call(port, n) for n in range(n_connections))))
    print("good", good, n_connections * N_ROUNDS * SIZE / (time.monotonic() - begin) / 1e6)


asyncio.run(main())
