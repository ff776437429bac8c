// An HTTP/2 server (without TLS) that answers each stream with its body and the body's SHA-256, and its client:
// "serve PORT", or "call PORT CONNECTIONS", which prints "good CONNECTIONS STREAMS/s".
'use strict';
const crypto = require('crypto');
const http2 = require('http2');

const N_STREAMS = 60; // of each connection ...
const N_AT_ONCE = 6; // ... so many of them at a time
const SIZES = [0, 1, 1000, 20000, 200000];
const [what, port, connections] = process.argv.slice(2);

const sha = (data) => crypto.createHash('sha256').update(data).digest('hex');

function body(stream) {
	return new Promise((resolve, reject) => {
		const pieces = [];
		stream.on('data', (piece) => pieces.push(piece));
		stream.on('end', () => resolve(Buffer.concat(pieces)));
		stream.on('error', reject);
	});
}

async function answer(stream) {
	const data = await body(stream);
	stream.respond({ ':status': 200, 'x-sum': sha(data) });
	stream.end(data);
}

async function post(session, data) {
	const stream = session.request({ ':method': 'POST', ':path': '/' });
	const headers = new Promise((resolve) => stream.on('response', resolve));
	stream.end(data);
	const got = await body(stream);
	return got.equals(data) && (await headers)['x-sum'] === sha(data);
}

async function connection(number) {
	const session = http2.connect(`http://127.0.0.1:${port}`);
	let good = true, next = 0;
	const worker = async () => {
		while (next < N_STREAMS) {
			const size = SIZES[(number + next++) % SIZES.length];
			good = (await post(session, crypto.randomBytes(size))) && good;
		}
	};
	await Promise.all([...Array(N_AT_ONCE)].map(worker));
	await new Promise((resolve) => session.close(resolve));
	return good;
}

async function call() {
	const begin = process.hrtime.bigint();
	const results = await Promise.all([...Array(Number(connections)).keys()].map(connection));
	const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
	console.log('good', results.filter(Boolean).length, (results.length * N_STREAMS) / seconds);
}

if (what === 'serve') {
	const server = http2.createServer();
	server.on('stream', (stream) => answer(stream).catch(() => stream.close()));
	server.listen(Number(port), '127.0.0.1', 511);
} else {
	call();
}
