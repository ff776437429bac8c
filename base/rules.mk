BASE_SRC := $(wildcard base/*.c)
