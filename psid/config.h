/*
 * psid's settings: defaults, then the file, then the environment. psid.conf(5) is the normative
 * text.
 */
#ifndef PULC_PSID_CONFIG_H
#define PULC_PSID_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "layout.h"
#include "settings.h"

#define PSID_N_USERS_MAX 64
#define PSID_N_DESCRIPTORS_MAX 1000000000u /* the kernel's own bound is about that */
#define PSID_N_SETTINGS_MAX 48u
#define PSID_SIZE_PATH 108 /* what a socket address holds */

/* Of operators: none, which is no group's number either; and, until psid_operators_default, that
 * nobody has said any. */
#define PSID_GID_NONE UINT32_MAX
#define PSID_GID_DEFAULT (UINT32_MAX - 1)

struct psid_uid_range {
	uid_t first, last;
};

enum psid_scope { PSID_SCOPE_AUTO, PSID_SCOPE_YES, PSID_SCOPE_NO };

struct psid_config {
	bool system;
	const char *file; /* that was named; NULL: the usual one, which need not exist */
	char runtime_dir[PSID_SIZE_PATH];
	char socket[PSID_SIZE_PATH];
	char state_dir[PSID_SIZE_PATH]; /* what is kept over reboots */
	char starter[PSID_SIZE_PATH];	/* "": psid starts keepers itself */
	uint32_t job_scope;		/* enum psid_scope */
	uint32_t log_level;
	uint32_t sec_idle_exit; /* 0: never */
	uint32_t msec_hand_over;
	struct psid_uid_range users[PSID_N_USERS_MAX];
	uint32_t n_users; /* 0: the owner of a private psid, everybody of a system's */
	uint32_t gid_operators;
	uint32_t max_processes;
	uint32_t max_clients_user;
	uint32_t max_areas_user;
	uint32_t max_descriptors_user;
	uint64_t max_bytes_user;
	uint64_t max_bytes;
	uint32_t max_hints_client;
	uint32_t hint_after;
	uint64_t size_credit;
	uint32_t size_ring[SHM_N_RINGS];
	uint32_t n_slots;
	struct psid_address metrics; /* port 0: none */
	struct psid_cluster_config cluster;
	/* Where each setting of the table came from: its line in the file that was read; 0: it is
	 * the default. */
	char read_from[PSID_SIZE_PATH];
	uint16_t lines[PSID_N_SETTINGS_MAX];
	uint32_t n_misspelt; /* variables of the environment that look like a known one's */
};

#define PSID_LINE_ENVIRONMENT UINT16_MAX

/* Where a setting came from, for people: "psid.conf:12", "PULC_RING_SIZES". */
struct psid_config_error {
	char text[256];
};

void psid_config_init(struct psid_config *config, bool system);
/*
 * Reads a file of settings. Returns 0; -ENOENT: no such file; -EINVAL: ret_error says where and
 * what is wrong; other negative errno, with ret_error.
 */
int psid_config_read(struct psid_config *config, const char *path,
		     struct psid_config_error *ret_error);
/* The same from memory; name is for error texts. */
int psid_config_parse(struct psid_config *config, const char *name, const char *text, size_t len,
		      struct psid_config_error *ret_error);
/* PULC_FOO_BAR for each setting FooBar. Returns 0; -EINVAL with ret_error. */
int psid_config_environment(struct psid_config *config, struct psid_config_error *ret_error);
/*
 * Fills in what depends on other settings, run directory and socket, and looks whether the
 * cluster's fit together. Returns 0; -ENAMETOOLONG, -EINVAL with ret_error.
 */
int psid_config_finish(struct psid_config *config, struct psid_config_error *ret_error);
/* Where settings are if no file is named. It need not be there. */
void psid_config_usual(bool system, char *buf, size_t size);
/*
 * All of it: defaults, the file (NULL: the usual one, if it is there) and the environment, for the
 * system's psid or a private one. Keeps the pointer to the file's name. Returns 0; negative errno
 * with ret_error.
 */
int psid_config_load(bool system, const char *file, struct psid_config *ret_config,
		     struct psid_config_error *ret_error);
bool psid_config_allows(const struct psid_config *config, uid_t uid);

#endif
