# The program whose connections outlive a psid, played by run-restart: unmodified, like the catalogue.
TEST_PROGRAMS += $(B)/tests/restart/player

$(B)/tests/restart/player: $(B)/obj/tests/restart/player.o
	@mkdir -p $(@D)
	$(CC) $(LINK) $(SANFLAGS) -o $@ $^ -pthread
