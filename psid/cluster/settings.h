/* The settings of the cluster: psid.conf(5), section Cluster. */
#ifndef PULC_PSID_CLUSTER_SETTINGS_H
#define PULC_PSID_CLUSTER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "node.h"

#define PSID_N_SEEDS_MAX 16u
#define PSID_N_STATIC_MAX 256u
#define PSID_SIZE_CLUSTER_NAME 33u
#define PSID_SIZE_SEED 128u
#define PSID_SIZE_CLUSTER_PATH 108u

struct psid_cluster_config {
	char name[PSID_SIZE_CLUSTER_NAME]; /* empty: no cluster */
	char node_name[PSID_SIZE_NAME];	   /* empty: the host's */
	char key_file[PSID_SIZE_CLUSTER_PATH];
	char certificate[PSID_SIZE_CLUSTER_PATH]; /* this and the next two: all or none */
	char certificate_key[PSID_SIZE_CLUSTER_PATH];
	char authority[PSID_SIZE_CLUSTER_PATH];
	char load_from[PSID_SIZE_CLUSTER_PATH];
	struct psid_address address; /* any address, or port 0: found at start */
	bool any_port;		     /* any that is free, not the usual one */
	char seeds[PSID_N_SEEDS_MAX][PSID_SIZE_SEED];
	uint32_t n_seeds;
	struct psid_static_node {
		char name[PSID_SIZE_NAME];
		struct psid_address address;
	} nodes[PSID_N_STATIC_MAX]; /* if there are any, nobody else is let in */
	uint32_t n_nodes;
	uint32_t msec_probe;
};

struct psid_setting;
struct psid_config;

void psid_cluster_config_init(struct psid_cluster_config *config);
/* What is wrong with the settings together: NULL, or a line for people, and which setting's. */
const char *psid_cluster_config_check(const struct psid_cluster_config *config,
				      const char **ret_setting);

/* Kinds of values, as in setting.h. */
int psid_setting_node_name(const struct psid_setting *s, struct psid_config *config,
			   const char *text, const char **ret_why);
int psid_setting_cluster_name(const struct psid_setting *s, struct psid_config *config,
			      const char *text, const char **ret_why);
int psid_setting_address(const struct psid_setting *s, struct psid_config *config, const char *text,
			 const char **ret_why);
int psid_setting_seeds(const struct psid_setting *s, struct psid_config *config, const char *text,
		       const char **ret_why);
int psid_setting_nodes(const struct psid_setting *s, struct psid_config *config, const char *text,
		       const char **ret_why);

#endif
