# The simulated cluster, for whatever drives memberships in virtual time.
SIM_OBJ = $(call objects,tests/cluster/sim.c)
$(B)/tests/unit/cluster_swim: $$(SIM_OBJ)

# For docs/cluster.md, run by hand: two thousand nodes take some minutes.
$(B)/tests/cluster/curves: $(B)/obj/tests/cluster/curves.o $$(SIM_OBJ) $(B)/obj/psid/cluster/all.a $(B)/obj/psid/all.a \
	$$(WIRE_OBJ) $$(FINGERPRINT_OBJ) $$(PEER_OBJ)
	@mkdir -p $(@D)
	@echo '  LD  $@'
	$(CC) $(LINK) $(SANFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(PSID_LIBS)
TEST_PROGRAMS += $(B)/tests/cluster/curves
