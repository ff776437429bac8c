LIBPULC_SRC := $(wildcard libpulc/*.c)
LIBPULC_OBJ = $(call objects,$(BASE_SRC) $(SHM_SRC) $(HAL_SRC) $(PROTOCOLS_SRC) $(LIBPULC_SRC) keeper/common/frame.c keeper/common/spec.c) $(B)/obj/gen/job.pb-c.o $(WIRE_OBJ) $(HAL_URING)
ALL += $(B)/lib/libpulc.so

$(B)/lib/libpulc.so: $(LIBPULC_SRC) $(PROTOCOLS_SRC) $(SHM_SRC) libpulc/libpulc.map
$(B)/lib/libpulc.so: $$(LIBPULC_OBJ)
	@mkdir -p $(@D)
	$(CC) -shared $(LINK_LTO) $(SANFLAGS) -Wl,-soname,libpulc.so.0 -Wl,--version-script=libpulc/libpulc.map \
		-o $(B)/lib/libpulc.so.0 -Wl,--exclude-libs,ALL $(filter %.o,$^) -l:libprotobuf-c.a
	ln -sf libpulc.so.0 $@
