# io_uring is for whoever links it: libpulc uses the plain way of HAL tcp, and no liburing.
HAL_SRC := $(filter-out hal/tcp_uring.c hal/tcp_open.c,$(wildcard hal/*.c))
