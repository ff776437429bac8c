# The benchmark programs, one a case family; `bench/run` drives them. They use plain sockets and
# link nothing of PULC: which path their bytes take is decided by who starts them. Only `native`, `block`, `overlap`, `survivor` and `crowd` are written to PULC, `link`
# to a HAL, `layers` to both, and `lock` to shm/lock.c.
BENCH_NAMES := floor pingpong stream wake connects idle files memcached chatter
BENCH_SHARED := $(addprefix bench/,calibrate.c options.c pair.c rounds.c stats.c)
BENCH_PROGRAMS := $(addprefix $(B)/bench/,$(BENCH_NAMES))

$(BENCH_PROGRAMS): $(B)/bench/%: $(B)/obj/bench/%.o $$(call objects,$$(BENCH_SHARED))
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^

$(B)/bench/native $(B)/bench/block $(B)/bench/overlap $(B)/bench/survivor $(B)/bench/crowd: $(B)/bench/%: $(B)/obj/bench/%.o $$(call objects,$$(BENCH_SHARED)) $(B)/lib/libpulc.so
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B)/lib)

$(B)/bench/link: $(B)/obj/bench/link.o $$(call objects,$$(BENCH_SHARED) $$(wildcard hal/tcp_*.c) base/copy.c shm/state.c shm/pairs.c)
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^ -luring

$(B)/bench/layers: $(B)/obj/bench/layers.o $(B)/obj/bench/layers_hal.o $$(call objects,$$(BENCH_SHARED) hal/shm.c hal/model.c $$(SHM_SRC) base/copy.c) \
		$(B)/lib/libpulc.so
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) -L$(B)/lib -lpulc -Wl,-rpath,$(abspath $(B)/lib)

$(B)/bench/lock: $(B)/obj/bench/lock.o $$(call objects,$$(BENCH_SHARED) shm/lock.c)
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^ -pthread

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS) $(B)/bench/lock $(B)/bench/survivor $(B)/bench/crowd $(B)/bench/native $(B)/bench/block $(B)/bench/overlap $(B)/bench/link $(B)/bench/layers ## build the benchmark programs
