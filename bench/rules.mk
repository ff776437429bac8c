# The benchmark programs, one a case family; `bench/run` drives them. They use plain sockets and
# link nothing of PULC: which path their bytes take is decided by who starts them.
BENCH_NAMES := floor pingpong stream wake connects idle files
BENCH_SHARED := $(addprefix bench/,options.c pair.c stats.c)
BENCH_PROGRAMS := $(addprefix $(B)/bench/,$(BENCH_NAMES))

$(BENCH_PROGRAMS): $(B)/bench/%: $(B)/obj/bench/%.o $$(call objects,$$(BENCH_SHARED))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS) ## build the benchmark programs
