// An HTTP server that answers each request with its body and the body's SHA-256, and its client:
// "serve PORT", or "call PORT CONNECTIONS", which prints "good CONNECTIONS REQUESTS/s".
'use strict';
const crypto = require('crypto');
const http = require('http');

const N_REQUESTS = 60; // of each connection
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

async function answer(request, response) {
	const data = await body(request);
	response.writeHead(200, { 'Content-Length': data.length, 'X-Sum': sha(data) });
	response.end(data);
}

function post(agent, data) {
	return new Promise((resolve, reject) => {
		const headers = { 'Content-Length': data.length };
		const request = http.request({ host: '127.0.0.1', port, agent, headers, method: 'POST', path: '/' });
		request.on('response', async (response) => {
			const got = await body(response);
			resolve(got.equals(data) && response.headers['x-sum'] === sha(data));
		});
		request.on('error', reject);
		request.end(data);
	});
}

async function connection(number) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	let good = true;
	for (let i = 0; i < N_REQUESTS; i++)
		good = (await post(agent, crypto.randomBytes(SIZES[(number + i) % SIZES.length]))) && good;
	agent.destroy();
	return good;
}

async function call() {
	const begin = process.hrtime.bigint();
	const results = await Promise.all([...Array(Number(connections)).keys()].map(connection));
	const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
	console.log('good', results.filter(Boolean).length, (results.length * N_REQUESTS) / seconds);
}

if (what === 'serve') {
	const server = http.createServer(answer);
	server.keepAliveTimeout = 100000;
	server.listen(Number(port), '127.0.0.1', 511);
} else {
	call();
}
