# Manual pages go to the folder of their section.
INSTALL += $(foreach m,$(wildcard docs/man/*.[1-8]),$(m):share/man/man$(patsubst .%,%,$(suffix $(m)))/$(notdir $(m)):644)
