// What the HTTP servers and clients have in common: bodies, whole and by their sum.
'use strict';
const crypto = require('crypto');

exports.SIZES = [0, 1, 1000, 20000, 200000];
exports.sha = (data) => crypto.createHash('sha256').update(data).digest('hex');
exports.read = (stream) =>
	new Promise((resolve, reject) => {
		const pieces = [];
		stream.on('data', (piece) => pieces.push(piece));
		stream.on('end', () => resolve(Buffer.concat(pieces)));
		stream.on('error', reject);
	});

// Calls connection(number) for each at once, and prints how many were good and the requests a second.
exports.call = async (connection, n_connections, n_requests) => {
	const begin = process.hrtime.bigint();
	const results = await Promise.all([...Array(n_connections).keys()].map(connection));
	const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
	console.log('good', results.filter(Boolean).length, (results.length * n_requests) / seconds);
};
