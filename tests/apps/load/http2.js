// An HTTP/2 server (without TLS) that answers each stream with its body and the body's SHA-256, and its client:
// "serve PORT", or "call PORT CONNECTIONS", which prints "good CONNECTIONS STREAMS/s".
'use strict';
const crypto = require('crypto');
const http2 = require('http2');
const body = require('./body.js');

const N_STREAMS = 60; // of each connection ...
const N_AT_ONCE = 6; // ... so many of them at a time
const [what, port, connections] = process.argv.slice(2);

async function answer(stream) {
	const data = await body.read(stream);
	stream.respond({ ':status': 200, 'x-sum': body.sha(data) });
	stream.end(data);
}

async function post(session, data) {
	const stream = session.request({ ':method': 'POST', ':path': '/' });
	const headers = new Promise((resolve) => stream.on('response', resolve));
	stream.end(data);
	const got = await body.read(stream);
	return got.equals(data) && (await headers)['x-sum'] === body.sha(data);
}

async function connection(number) {
	const session = http2.connect(`http://127.0.0.1:${port}`);
	let good = true, next = 0;
	const worker = async () => {
		while (next < N_STREAMS) {
			const size = body.SIZES[(number + next++) % body.SIZES.length];
			good = (await post(session, crypto.randomBytes(size))) && good;
		}
	};
	await Promise.all([...Array(N_AT_ONCE)].map(worker));
	await new Promise((resolve) => session.close(resolve));
	return good;
}

if (what === 'serve') {
	const server = http2.createServer();
	server.on('stream', (stream) => answer(stream).catch(() => stream.close()));
	server.listen(Number(port), '127.0.0.1', 511);
} else {
	body.call(connection, Number(connections), N_STREAMS);
}
