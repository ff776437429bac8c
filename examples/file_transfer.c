/*
 * A file transfer: the sender reads the next block while those before it are on their way, the
 * receiver writes one while the next ones come. One sender, one file, whose end is an empty
 * message.
 *
 * 	cc file_transfer.c $(pkg-config --cflags --libs pulc) -o file_transfer
 * 	./file_transfer receive COPY &
 * 	./file_transfer send FILE
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pulc/pulc.h>

#define N_BLOCKS 4
#define SIZE_BLOCK (256u << 10)

static char blocks[N_BLOCKS][SIZE_BLOCK];

static int fail(const char *what, ssize_t error)
{
	fprintf(stderr, "file_transfer: %s: %s\n", what, strerror((int)-error));
	return 1;
}

/* The receiver's last word is the number of bytes that it has written. */
static ssize_t send_blocks(FILE *file, pulc_port *port, const struct pulc_address *to)
{
	pulc_op *ops[N_BLOCKS] = { NULL };
	ssize_t n = 0, len = 1;

	for (unsigned i = 0; n >= 0 && len > 0; i = (i + 1) % N_BLOCKS) {
		/* The block's last sending must be over before it is filled again. */
		if (ops[i])
			n = pulc_op_end(ops[i], NULL);
		ops[i] = NULL;
		len = (ssize_t)fread(blocks[i], 1, SIZE_BLOCK, file);
		if (n >= 0)
			n = pulc_isend(port, to, blocks[i], (size_t)len, &ops[i]);
	}
	for (unsigned i = 0; i < N_BLOCKS; i++) {
		ssize_t e = ops[i] ? pulc_op_end(ops[i], NULL) : 0;

		n = e < 0 ? e : n;
	}
	return ferror(file) ? -EIO : n;
}

static int send_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	unsigned long long written = 0;
	struct iovec iov = { .iov_base = &written, .iov_len = sizeof(written) };
	struct pulc_address to;
	pulc_port *port;
	ssize_t n;

	if (!file)
		return fail(path, -errno);
	n = pulc_port_open(PULC_D, 0, NULL, &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	n = pulc_find("file_transfer", &to);
	if (n >= 0)
		n = send_blocks(file, port, &to);
	if (n >= 0)
		n = pulc_receivev(port, &iov, 1, &to, NULL, 0);
	if (n < 0)
		return fail("cannot send", n);
	printf("%llu bytes\n", written);
	return (int)pulc_port_close(port) | fclose(file);
}

/* Receives are posted ahead, so each block goes straight into its buffer. */
static ssize_t receive_blocks(FILE *file, pulc_port *port)
{
	unsigned long long written = 0;
	struct pulc_address from;
	pulc_op *ops[N_BLOCKS];
	ssize_t n = 0, len = 1;

	for (unsigned i = 0; i < N_BLOCKS; i++)
		if ((n = pulc_ireceive(port, blocks[i], SIZE_BLOCK, &ops[i])) < 0)
			return n;
	for (unsigned i = 0; n >= 0 && len > 0; i = (i + 1) % N_BLOCKS) {
		len = pulc_op_end(ops[i], &from);
		if (len > 0 && fwrite(blocks[i], 1, (size_t)len, file) != (size_t)len)
			return -EIO;
		written += len > 0 ? (size_t)len : 0;
		n = len < 0 ? len : 0;
		ops[i] = NULL;
		if (len > 0)
			n = pulc_ireceive(port, blocks[i], SIZE_BLOCK, &ops[i]);
	}
	for (unsigned i = 0; i < N_BLOCKS; i++)
		if (ops[i] && pulc_op_cancel(ops[i]) == 0)
			(void)pulc_op_end(ops[i], NULL);
	if (n >= 0 && fflush(file) != 0)
		n = -errno;
	return n < 0 ? n : pulc_send(port, &from, &written, sizeof(written), 0);
}

static int receive_file(const char *path)
{
	FILE *file = fopen(path, "wb");
	pulc_port *port;
	ssize_t n;

	if (!file)
		return fail(path, -errno);
	n = pulc_port_open(PULC_D, 0, "file_transfer", &port);
	if (n < 0)
		return fail("cannot open a port (does a psid run?)", n);
	n = receive_blocks(file, port);
	if (n < 0)
		return fail("cannot receive", n);
	return (int)pulc_port_close(port) | fclose(file);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "receive") == 0)
		return receive_file(argv[2]);
	if (argc == 3 && strcmp(argv[1], "send") == 0)
		return send_file(argv[2]);
	fputs("usage: file_transfer receive COPY | file_transfer send FILE\n", stderr);
	return 2;
}
