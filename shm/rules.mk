SHM_SRC := $(wildcard shm/*.c)
