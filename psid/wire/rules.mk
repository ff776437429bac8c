# The wire schema and the code that protobuf-c makes from it.
WIRE_SRC := $(filter-out psid/wire/fingerprint.c psid/wire/variables.c,$(wildcard psid/wire/*.c))
GENERATED += $(B)/gen/client.pb-c.h $(B)/gen/peer.pb-c.h

$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: psid/wire/%.proto
	@mkdir -p $(@D)
	protoc --proto_path=psid/wire --c_out=$(B)/gen $<

# It speaks of jobs in the words of the other.
$(B)/gen/peer.pb-c.c $(B)/gen/peer.pb-c.h: psid/wire/client.proto

$(B)/obj/gen/%.o: $(B)/gen/%.c | $(GENERATED)
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) $(SANFLAGS) -I$(B)/gen -MMD -MP -c $< -o $@

WIRE_OBJ = $(call objects,$(WIRE_SRC)) $(B)/obj/gen/client.pb-c.o
# What needs OpenSSL: of psid and pulcctl.
FINGERPRINT_OBJ = $(call objects,psid/wire/fingerprint.c)
# What psid and the commands need.
VARIABLES_OBJ = $(call objects,psid/wire/variables.c)
# Between psids only: no library and no command needs it.
PEER_OBJ = $(B)/obj/gen/peer.pb-c.o

# Not intermediate: make would delete them while others compile.
.SECONDARY: $(foreach m,client peer,$(B)/gen/$(m).pb-c.c $(B)/gen/$(m).pb-c.h)
