# PULC as services: the system's psid with its starter, a psid for each user, and what systemd's tools know of them.
ALL += $(B)/psid.service $(B)/psid-starter.service $(B)/user.service
INSTALL += $(foreach u,psid.service psid-starter.service,$(B)/$(u):lib/systemd/system/$(u):644)
INSTALL += $(foreach u,psid.socket psid-starter.socket,systemd/$(u):lib/systemd/system/$(u):644)
INSTALL += $(B)/user.service:lib/systemd/user/psid.service:644 systemd/user.socket:lib/systemd/user/psid.socket:644
INSTALL += systemd/pulc.catalog:lib/systemd/catalog/pulc.catalog:644 systemd/pulc.tmpfiles:lib/tmpfiles.d/pulc.conf:644
INSTALL += systemd/pulc.sysusers:lib/sysusers.d/pulc.conf:644
