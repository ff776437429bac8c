/*
 * The protocol switch: pulc/stream.h for any protocol. Each stream knows its handler; what is
 * common to all protocols (references, the shim's word, readiness for the first time) is in
 * stream.c.
 */
#include "private.h"

USUAL PULC_EXPORT ssize_t pulc_stream_send(pulc_stream *s, int fd, const void *buf, size_t len,
					   int flags)
{
	return s->handler->send(s, fd, buf, len, flags);
}

USUAL PULC_EXPORT ssize_t pulc_stream_recv(pulc_stream *s, int fd, void *buf, size_t len, int flags)
{
	return s->handler->recv(s, fd, buf, len, flags);
}

PULC_EXPORT ssize_t pulc_stream_sendmsg(pulc_stream *s, int fd, const struct msghdr *msg, int flags)
{
	return s->handler->sendmsg(s, fd, msg, flags);
}

PULC_EXPORT ssize_t pulc_stream_recvmsg(pulc_stream *s, int fd, struct msghdr *msg, int flags)
{
	return s->handler->recvmsg(s, fd, msg, flags);
}

USUAL PULC_EXPORT void pulc_stream_send_end(pulc_stream *s, int fd, ssize_t n)
{
	s->handler->send_end(s, fd, n);
}

USUAL PULC_EXPORT void pulc_stream_recv_end(pulc_stream *s, int fd, ssize_t n)
{
	s->handler->recv_end(s, fd, n);
}

PULC_EXPORT int pulc_stream_send_begin(pulc_stream *s, int fd)
{
	return s->handler->send_begin(s, fd);
}

USUAL PULC_EXPORT bool pulc_stream_is_datagram(const pulc_stream *s)
{
	return s->handler->is_datagram;
}

PULC_EXPORT void pulc_stream_met(pulc_stream *s, int fd, unsigned event,
				 const struct sockaddr *addr, socklen_t len)
{
	s->handler->met(s, fd, event, addr, len);
}

PULC_EXPORT bool pulc_stream_connected(pulc_stream *s, int fd)
{
	return s->handler->connected(s, fd);
}

PULC_EXPORT int pulc_stream_kernel_enter(pulc_stream *s, unsigned events)
{
	return s->handler->kernel_enter(s, events);
}

PULC_EXPORT void pulc_stream_kernel_leave(pulc_stream *s, unsigned events)
{
	s->handler->kernel_leave(s, events);
}

PULC_EXPORT unsigned pulc_stream_ready(pulc_stream *s, int fd, unsigned events)
{
	return s->handler->ready(s, fd, events);
}

PULC_EXPORT unsigned pulc_stream_poll(pulc_stream *s, int fd, unsigned events)
{
	return s->handler->poll(s, fd, events);
}

PULC_EXPORT uint64_t pulc_stream_mark(pulc_stream *s)
{
	return s->handler->mark(s);
}

PULC_EXPORT uint32_t pulc_stream_when(pulc_stream *s)
{
	return s->handler->when(s);
}

PULC_EXPORT int pulc_stream_watch(pulc_stream *s, pulc_waitset *set, unsigned bit, unsigned events)
{
	return s->handler->watch(s, set, bit, events);
}

PULC_EXPORT void pulc_stream_unwatch(pulc_stream *s, pulc_waitset *set, unsigned bit)
{
	s->handler->unwatch(s, set, bit);
}

PULC_EXPORT uint64_t pulc_stream_patience(pulc_stream *s, pulc_waitset *set)
{
	return s->handler->patience(s, set);
}

PULC_EXPORT bool pulc_stream_peer_here(pulc_stream *s)
{
	return s->handler->peer_here(s);
}

PULC_EXPORT int pulc_stream_shutdown(pulc_stream *s, int fd, int how)
{
	return s->handler->shutdown(s, fd, how);
}

PULC_EXPORT int pulc_stream_inq(pulc_stream *s, int fd, int *ret_size)
{
	return s->handler->inq(s, fd, ret_size);
}

PULC_EXPORT int pulc_stream_outq(pulc_stream *s, int fd, int *ret_size)
{
	return s->handler->outq(s, fd, ret_size);
}

PULC_EXPORT bool pulc_stream_at_mark(pulc_stream *s, int fd)
{
	return s->handler->at_mark(s, fd);
}

PULC_EXPORT void pulc_stream_add_info(pulc_stream *s, void *info, size_t len)
{
	s->handler->add_info(s, info, len);
}

PULC_EXPORT int pulc_stream_take_error(pulc_stream *s)
{
	return s->handler->take_error(s);
}

PULC_EXPORT void pulc_stream_keep_error(pulc_stream *s, int error)
{
	s->handler->keep_error(s, error);
}

PULC_EXPORT bool pulc_stream_is_reset(pulc_stream *s)
{
	return s->handler->is_reset(s);
}

PULC_EXPORT void pulc_stream_nonblock_changed(pulc_stream *s, bool nonblock)
{
	s->handler->nonblock_changed(s, nonblock);
}

USUAL PULC_EXPORT void pulc_stream_option_changed(pulc_stream *s, int fd, int level, int option)
{
	s->handler->option_changed(s, fd, level, option);
}

PULC_EXPORT void pulc_stream_keep_on_kernel(pulc_stream *s, int fd, enum pulc_reason reason)
{
	s->handler->keep_on_kernel(s, fd, reason);
}

USUAL PULC_EXPORT void pulc_stream_closing(pulc_stream *s, int fd)
{
	s->handler->closing(s, fd);
}
