PROTOCOLS_SRC := $(wildcard protocols/*.c)
