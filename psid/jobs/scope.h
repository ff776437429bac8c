/* A scope of systemd for jobs. */
#ifndef PULC_PSID_SCOPE_H
#define PULC_PSID_SCOPE_H

struct psid_config;

/*
 * Has systemd move this process into a scope of its own, number a part of its name, if the settings
 * and the machine are so. Says why not; the rest is as before then. May wait some seconds: before
 * anybody is served only.
 */
void psid_scope_enter(const struct psid_config *config, unsigned number);

#endif
