# HAL tcp is built for whoever links it: libpulc has no peers on other nodes, and no liburing.
HAL_SRC := $(filter-out hal/tcp_%,$(wildcard hal/*.c))
