# Manual pages go to the folder of their section.
INSTALL += $(foreach m,$(wildcard docs/man/*.[1-8]),$(m):share/man/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m)):644)
# A call is found by its own name, whatever page it is on.
man_names = $(shell sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([a-z_]*\).*/\1/p' $(1))
INSTALL += $(foreach m,$(wildcard docs/man/*.3),$(foreach n,$(filter-out $(basename $(notdir $(m))),$(call man_names,$(m))),$(notdir $(m)):share/man/man3/$(n).3:link))
