// An echo over java.nio's selector: "serve PORT", or "call PORT CONNECTIONS", which prints
// "good CONNECTIONS MB/s". Run from its source: java Echo.java ...

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Random;

public class Echo {
	static final int SIZE = 2_000_000; // of each connection, in each direction
	static final int PIECE = 65536;

	interface Link {
		void go(SelectionKey key) throws IOException;
	}

	// The server's half: what was read is written before more is read.
	static class Mirror implements Link {
		final ByteBuffer buffer = ByteBuffer.allocateDirect(PIECE);
		boolean ended;

		public void go(SelectionKey key) throws IOException {
			SocketChannel channel = (SocketChannel) key.channel();
			ended |= channel.read(buffer) < 0;
			buffer.flip();
			channel.write(buffer);
			buffer.compact();
			if (ended && buffer.position() == 0) {
				channel.close();
				return;
			}
			key.interestOps((ended || !buffer.hasRemaining() ? 0 : SelectionKey.OP_READ)
					| (buffer.position() > 0 ? SelectionKey.OP_WRITE : 0));
		}
	}

	// The client's half: sends bytes of its own, and compares what comes back.
	static class Caller implements Link {
		final byte[] sent = new byte[SIZE];
		final ByteBuffer out = ByteBuffer.wrap(sent);
		final ByteBuffer in = ByteBuffer.allocateDirect(PIECE);
		final Random chosen;
		int n_back;
		boolean good = true;
		boolean done;

		Caller(int number) {
			chosen = new Random(number);
			chosen.nextBytes(sent);
		}

		public void go(SelectionKey key) throws IOException {
			SocketChannel channel = (SocketChannel) key.channel();
			if (key.isWritable())
				send(key, channel);
			if (key.isReadable())
				receive(channel);
		}

		void send(SelectionKey key, SocketChannel channel) throws IOException {
			out.limit(Math.min(SIZE, out.position() + 1 + chosen.nextInt(PIECE)));
			channel.write(out);
			if (out.position() < SIZE)
				return;
			channel.shutdownOutput();
			key.interestOps(SelectionKey.OP_READ);
		}

		void receive(SocketChannel channel) throws IOException {
			in.clear();
			int n = channel.read(in);
			in.flip();
			while (in.hasRemaining() && n_back < SIZE)
				good &= in.get() == sent[n_back++];
			good &= !in.hasRemaining();
			if (n >= 0)
				return;
			good &= n_back == SIZE;
			done = true;
			channel.close();
		}
	}

	static void serve(int port) throws IOException {
		Selector selector = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open();
		listener.bind(new InetSocketAddress("127.0.0.1", port), 200);
		listener.configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		while (true)
			selector.select(key -> step(selector, key));
	}

	static void step(Selector selector, SelectionKey key) {
		try {
			if (!key.isAcceptable()) {
				((Link) key.attachment()).go(key);
				return;
			}
			SocketChannel channel = ((ServerSocketChannel) key.channel()).accept();
			if (channel == null)
				return;
			channel.configureBlocking(false);
			channel.register(selector, SelectionKey.OP_READ, new Mirror());
		} catch (IOException e) {
			e.printStackTrace();
			System.exit(1);
		}
	}

	static void call(int port, int n_connections) throws IOException {
		Selector selector = Selector.open();
		Caller[] callers = new Caller[n_connections];
		for (int i = 0; i < n_connections; i++)
			callers[i] = new Caller(i);
		long begin = System.nanoTime();
		for (Caller caller : callers) {
			SocketChannel channel = SocketChannel.open(new InetSocketAddress("127.0.0.1", port));
			channel.configureBlocking(false);
			channel.register(selector, SelectionKey.OP_READ | SelectionKey.OP_WRITE, caller);
		}
		int n_good = 0;
		for (Caller caller : callers)
			while (!caller.done)
				selector.select(key -> step(selector, key));
		for (Caller caller : callers)
			n_good += caller.good ? 1 : 0;
		double seconds = (System.nanoTime() - begin) / 1e9;
		System.out.println("good " + n_good + " " + (double) n_connections * SIZE / seconds / 1e6);
	}

	public static void main(String[] words) throws IOException {
		if (words[0].equals("serve"))
			serve(Integer.parseInt(words[1]));
		else
			call(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
	}
}
