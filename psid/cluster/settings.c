/*
 * The values that only the cluster's settings have: names, addresses, lists of seeds and of nodes.
 * Lists may be spread over several lines of the same setting; each line adds to the ones before.
 */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "setting.h"

void psid_cluster_config_init(struct psid_cluster_config *config)
{
	*config = (struct psid_cluster_config){ .msec_probe = 250, .load_from = "/proc" };
}

/* The first of these that is given. */
static const char *any_of(const struct psid_cluster_config *config)
{
	if (config->key_file[0])
		return "ClusterKeyFile";
	return config->n_seeds ? "ClusterSeeds" : "ClusterNodes";
}

const char *psid_cluster_config_check(const struct psid_cluster_config *config,
				      const char **ret_setting)
{
	unsigned n_files = !!config->certificate[0] + !!config->certificate_key[0] +
			   !!config->authority[0];

	*ret_setting = config->certificate[0]	    ? "ClusterCertificate"
		       : config->certificate_key[0] ? "ClusterCertificateKey"
						    : "ClusterAuthority";
	if (n_files != 0 && n_files != 3)
		return "ClusterCertificate, ClusterCertificateKey and ClusterAuthority belong "
		       "together: give all or none";
	*ret_setting = "ClusterName";
	if (config->name[0] && !config->key_file[0])
		return "ClusterName needs ClusterKeyFile: `pulcctl keygen FILE` makes one, and "
		       "every node gets a copy";
	*ret_setting = any_of(config);
	if (!config->name[0] && (config->key_file[0] || config->n_seeds || config->n_nodes))
		return "ClusterName is missing: without it the other settings of the cluster mean "
		       "nothing";
	return NULL;
}

static int parse_name(char *field, size_t size, const char *text, const char **ret_why)
{
	size_t len = strlen(text);

	*ret_why = "expected letters, digits, '-', '_' and '.', not too many";
	if (len >= size || !psid_node_name_ok(text, len))
		return -EINVAL;
	memcpy(field, text, len + 1);
	return 0;
}

int psid_setting_node_name(const struct psid_setting *s, struct psid_config *config,
			   const char *text, const char **ret_why)
{
	(void)s;
	return parse_name(config->cluster.node_name, sizeof(config->cluster.node_name), text,
			  ret_why);
}

int psid_setting_cluster_name(const struct psid_setting *s, struct psid_config *config,
			      const char *text, const char **ret_why)
{
	(void)s;
	return parse_name(config->cluster.name, sizeof(config->cluster.name), text, ret_why);
}

int psid_setting_address(const struct psid_setting *s, struct psid_config *config, const char *text,
			 const char **ret_why)
{
	struct psid_cluster_config *cluster = &config->cluster;
	const char *colon = strrchr(text, ':');
	bool any_port = colon && strcmp(colon, ":0") == 0 &&
			(colon == strchr(text, ':') || colon[-1] == ']');
	char ip[64];
	int r;

	(void)s;
	*ret_why = "expected an IP address and perhaps a port: 10.0.0.1, 10.0.0.1:7852, "
		   "[fd00::1]:7852, 0.0.0.0:0";
	(void)snprintf(ip, sizeof(ip), "%.*s", any_port ? (int)(colon - text) : -1, text);
	r = psid_address_parse(ip, PSID_PORT, &cluster->address);
	if (r == 0)
		cluster->any_port = any_port;
	return r;
}

/* Calls add for each word of text. */
static int each_word(struct psid_cluster_config *config, const char *text, const char **ret_why,
		     int (*add)(struct psid_cluster_config *config, const char *word,
				const char **ret_why))
{
	char copy[1024], *rest = copy, *word;
	int r = 0;

	*ret_why = "too long";
	if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
		return -EINVAL;
	while (r == 0 && (word = strtok_r(NULL, " \t,", &rest)))
		r = add(config, word, ret_why);
	return r;
}

static int add_seed(struct psid_cluster_config *config, const char *word, const char **ret_why)
{
	char host[PSID_SIZE_SEED];
	uint16_t port;

	*ret_why = "too many seeds: a few are enough";
	if (config->n_seeds == PSID_N_SEEDS_MAX)
		return -EINVAL;
	*ret_why = "expected host names or IP addresses, each perhaps with :port";
	if (strlen(word) >= PSID_SIZE_SEED ||
	    psid_address_split(word, host, sizeof(host), &port) < 0)
		return -EINVAL;
	(void)strcpy(config->seeds[config->n_seeds++], word);
	return 0;
}

int psid_setting_seeds(const struct psid_setting *s, struct psid_config *config, const char *text,
		       const char **ret_why)
{
	(void)s;
	return each_word(&config->cluster, text, ret_why, add_seed);
}

static int add_node(struct psid_cluster_config *config, const char *word, const char **ret_why)
{
	struct psid_static_node *node = &config->nodes[config->n_nodes];
	const char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word) : 0;

	*ret_why = "too many nodes: use seeds";
	if (config->n_nodes == PSID_N_STATIC_MAX)
		return -EINVAL;
	*ret_why = "expected name=address, the address an IP address with perhaps a port";
	if (!psid_node_name_ok(word, len) ||
	    psid_address_parse(equals + 1, PSID_PORT, &node->address) < 0)
		return -EINVAL;
	memcpy(node->name, word, len);
	node->name[len] = '\0';
	for (uint32_t i = 0; i < config->n_nodes; i++)
		if (strcmp(config->nodes[i].name, node->name) == 0) {
			*ret_why = "a node is named twice";
			return -EINVAL;
		}
	config->n_nodes++;
	return 0;
}

int psid_setting_nodes(const struct psid_setting *s, struct psid_config *config, const char *text,
		       const char **ret_why)
{
	(void)s;
	return each_word(&config->cluster, text, ret_why, add_node);
}
