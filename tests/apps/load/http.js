// An HTTP server that answers each request with its body and the body's SHA-256, and its client:
// "serve PORT", or "call PORT CONNECTIONS", which prints "good CONNECTIONS REQUESTS/s".
'use strict';
const crypto = require('crypto');
const http = require('http');
const body = require('./body.js');

const N_REQUESTS = 60; // of each connection
const [what, port, connections] = process.argv.slice(2);

async function answer(request, response) {
	const data = await body.read(request);
	response.writeHead(200, { 'Content-Length': data.length, 'X-Sum': body.sha(data) });
	response.end(data);
}

function post(agent, data) {
	return new Promise((resolve, reject) => {
		const headers = { 'Content-Length': data.length };
		const request = http.request({ host: '127.0.0.1', port, agent, headers, method: 'POST', path: '/' });
		request.on('response', async (response) => {
			const got = await body.read(response);
			resolve(got.equals(data) && response.headers['x-sum'] === body.sha(data));
		});
		request.on('error', reject);
		request.end(data);
	});
}

async function connection(number) {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
	let good = true;
	for (let i = 0; i < N_REQUESTS; i++)
		good = (await post(agent, crypto.randomBytes(body.SIZES[(number + i) % body.SIZES.length]))) && good;
	agent.destroy();
	return good;
}

if (what === 'serve') {
	const server = http.createServer(answer);
	server.keepAliveTimeout = 100000;
	server.listen(Number(port), '127.0.0.1', 511);
} else {
	body.call(connection, Number(connections), N_REQUESTS);
}
