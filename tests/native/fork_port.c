/*
 * A port that a forked child takes along, and gives back: what was unread goes with it, and who
 * sends to it notices nothing. Another child that is not given it gets nothing of it, and hears of
 * its end. Prints "child" and "parent" when all is well with them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pulc/pulc.h>

#define MSEC_PATIENCE 45000

static int failed(int line)
{
	printf("line %d\n", line);
	(void)fflush(stdout);
	return 1;
}

static int expect(pulc_port *p, const char *text)
{
	char buf[8] = "";

	return pulc_receive(p, buf, sizeof(buf), NULL, 0) == (ssize_t)strlen(text) &&
	       memcmp(buf, text, strlen(text)) == 0;
}

static int say(pulc_port *p, const struct pulc_address *to, const char *text)
{
	return pulc_send(p, to, text, strlen(text), 0) == (ssize_t)strlen(text);
}

static int be_child(pulc_port *p, pulc_op *parents)
{
	if (pulc_port_give(p, getppid(), 0) != -ECHILD)
		return failed(__LINE__);
	if (pulc_port_inherit(p, MSEC_PATIENCE) != 0 || pulc_port_inherit(p, 0) != -EINVAL)
		return failed(__LINE__);
	if (pulc_op_end(parents, NULL) != -ECHILD)
		return failed(__LINE__);
	if (!expect(p, "one") || !expect(p, "two") || !expect(p, "three"))
		return failed(__LINE__);
	if (pulc_port_give(p, getppid(), MSEC_PATIENCE) != 0)
		return failed(__LINE__);
	puts("child");
	return 0;
}

/* Nobody gives it to this one. */
static int be_stranger(pulc_port *p)
{
	int e = pulc_port_inherit(p, MSEC_PATIENCE);

	return e == -ENOENT || e == -ECONNRESET ? 0 : failed(__LINE__);
}

static int start(pulc_port *p, pulc_op *op)
{
	int pid = (int)fork(), e;

	if (pid != 0)
		return pid;
	e = op ? be_child(p, op) : be_stranger(p);
	(void)fflush(stdout);
	_exit(e);
}

int main(void)
{
	struct pulc_address family;
	pulc_port *p, *other;
	char buf[8];
	pulc_op *op;
	int status, child;

	if (pulc_port_open(PULC_D, 0, "family", &p) != 0 ||
	    pulc_port_open(PULC_D, 0, NULL, &other) != 0)
		return failed(__LINE__);
	family = pulc_port_address(p);
	if (pulc_ireceive(p, buf, sizeof(buf), &op) != 0)
		return failed(__LINE__);
	child = start(p, op);
	if (pulc_port_give(p, child, 0) != -EBUSY || !say(other, &family, "zero") ||
	    pulc_op_end(op, NULL) != 4)
		return failed(__LINE__);
	if (!say(other, &family, "one") || !say(other, &family, "two"))
		return failed(__LINE__);
	if (pulc_port_give(p, child, MSEC_PATIENCE) != 0 || !say(other, &family, "three"))
		return failed(__LINE__);
	if (pulc_port_take(family.port, MSEC_PATIENCE, &p) != 0 ||
	    pulc_port_address(p).port != family.port)
		return failed(__LINE__);
	if (!say(other, &family, "four") || !expect(p, "four"))
		return failed(__LINE__);
	if (waitpid(child, &status, 0) != child || status != 0)
		return failed(__LINE__);
	child = start(p, NULL);
	if (pulc_port_close(p) != 0 || waitpid(child, &status, 0) != child || status != 0)
		return failed(__LINE__);
	puts("parent");
	return 0;
}
