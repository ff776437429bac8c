HAL_SRC := $(wildcard hal/*.c)
