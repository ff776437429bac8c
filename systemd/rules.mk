# The system's psid as a service.
ALL += $(B)/psid.service
INSTALL += $(B)/psid.service:lib/systemd/system/psid.service:644
