/*
 * Semaphores. Processes take and give back in a page that they share; psid makes the page, finds it
 * by its name, tells each of them a number that is its own there, and knows who is dead. That one's
 * counts it frees, and then all sleepers look.
 *
 * A semaphore lives as long as a client has part in it. A forked child has its parent's page, and
 * shows its descriptor to take part: also after all others have gone, and to a psid that has never
 * seen it. Only psid makes such memory, so what it finds to be such (seals, owner, mode) is as good
 * as its own.
 *
 * To a new psid those who had part come back in the same way, and say by which number what they
 * hold is marked: it is theirs, unless somebody in that semaphore has it. By a lie about it a
 * process gets at nothing but marks that it could write itself. Of name, kind and size the first
 * who comes is believed, as if he made it.
 *
 * The page is anybody's to write who has part in it. psid believes nothing there but what is equal
 * to the number of a dead one, and allocates it before each touch, for its users could punch a
 * hole.
 */
#include "sems.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cleanup.h"
#include "descriptors.h"
#include "macros.h"
#include "memory.h"
#include "ports.h"
#include "psid.h"
#include "sem.h"
#include "step.h"
#include "user.h"

#define N_SEMS_CLIENT 256u

struct psid_sem {
	struct psid_map_node by_ino;  /* psid->sems */
	struct psid_map_node by_name; /* psid->sem_names, if it has one */
	struct psid_map holds;	      /* by number */
	struct psid *psid;
	struct psid_user *user; /* who made it, and pays */
	struct shm_sem *page;
	int fd;
	uint32_t n; /* counts, if they have holders */
	bool all;
	char name[PSID_PORT_NAME_MAX + 1];
};

/* One client's part in it, on the account of its user. */
struct psid_sem_hold {
	struct psid_map_node by_number; /* sem->holds */
	LIST_ENTRY(psid_sem_hold) by_client;
	struct psid_sem *sem;
	struct psid_client *client;
	uint32_t number;
};

static Pulc__Wire__PortError error_of(int r)
{
	if (r == 0)
		return PULC__WIRE__PORT_ERROR__PORT_ERROR_NONE;
	return r == -ENOMEM ? PULC__WIRE__PORT_ERROR__PORT_ERROR_NO_MEMORY
			    : PULC__WIRE__PORT_ERROR__PORT_ERROR_LIMIT;
}

/* ---- a semaphore ----------------------------------------------------------------------------- */

static struct psid_sem *sem_by_ino(const struct psid *psid, uint64_t ino)
{
	struct psid_map_node *node = psid_map_find(&psid->sems, ino);

	return node ? CONTAINER_OF(node, struct psid_sem, by_ino) : NULL;
}

static struct psid_sem *sem_named(const struct psid *psid, const char *name)
{
	struct psid_map_node *node = psid_map_find(&psid->sem_names, psid_hash_name(name));

	for (; node; node = psid_map_find_next(node)) {
		struct psid_sem *sem = CONTAINER_OF(node, struct psid_sem, by_name);

		if (strcmp(sem->name, name) == 0)
			return sem;
	}
	return NULL;
}

static void sem_free(struct psid_sem *sem)
{
	psid_map_remove(&sem->psid->sems, &sem->by_ino);
	if (sem->name[0])
		psid_map_remove(&sem->psid->sem_names, &sem->by_name);
	psid_user_give_bytes(sem->user, SHM_PAGE);
	shm_sem_unmap(sem->page);
	psid_user_give_area(sem->user, sem->fd);
	(void)psid_user_unref(sem->user);
	psid_map_deinit(&sem->holds);
	free(sem);
}

/* On the user's account. 0; -ENOMEM; anything else: a limit. */
static int pay(struct psid_user *user)
{
	int r = psid_user_take_area(user);

	if (r != 0)
		return r;
	r = psid_user_take_bytes(user, SHM_PAGE);
	if (r != 0)
		psid_user_give_area(user, -EBADF);
	return r;
}

/* Takes the descriptor. 0; -ENOMEM; anything else: a limit. */
static int sem_new(struct psid_client *client, int memory, uint64_t ino, struct psid_sem **ret_sem)
{
	CLEANUP_FD int fd = memory;
	struct psid_sem *sem;
	int r = pay(client->user);

	if (r != 0)
		return r;
	sem = calloc(1, sizeof(*sem));
	r = sem ? shm_sem_map(fd, &sem->page) : -ENOMEM;
	if (r == 0)
		r = psid_memory_allocate(sem->page, SHM_PAGE);
	if (r == 0 && psid_map_insert(&client->psid->sems, &sem->by_ino, ino) < 0)
		r = -ENOMEM;
	if (r < 0) {
		if (sem)
			shm_sem_unmap(sem->page);
		free(sem);
		psid_user_give_bytes(client->user, SHM_PAGE);
		psid_user_give_area(client->user, TAKE_FD(fd));
		return r;
	}
	sem->psid = client->psid;
	sem->user = psid_user_ref(client->user);
	sem->fd = TAKE_FD(fd);
	*ret_sem = sem;
	return 0;
}

/* Under this name, which nobody has. 0; -ENOMEM. */
static int sem_give_name(struct psid_sem *sem, const char *name)
{
	if (psid_map_insert(&sem->psid->sem_names, &sem->by_name, psid_hash_name(name)) < 0)
		return -ENOMEM;
	(void)stpncpy(sem->name, name, PSID_PORT_NAME_MAX);
	return 0;
}

/* 0; -ENOMEM; anything else: a limit. */
static int sem_make(struct psid_client *client, const Pulc__Wire__SemOpen *msg,
		    struct psid_sem **ret_sem)
{
	struct shm_sem first = { .magic = SHM_MAGIC_SEM, .version = SHM_VERSION };
	CLEANUP_FD int fd = -EBADF;
	uint64_t ino, size;
	int r;

	if (!msg->held)
		first.count = msg->count;
	r = psid_memory_new("pulc-sem", SHM_PAGE, &first, sizeof(first), &fd);
	if (r == 0)
		r = psid_memory_check(fd, &ino, &size);
	if (r == 0)
		r = sem_new(client, TAKE_FD(fd), ino, ret_sem);
	if (r != 0)
		return r;
	(*ret_sem)->n = msg->held ? msg->count : 0;
	(*ret_sem)->all = msg->all;
	if (!msg->name[0])
		return 0;
	r = sem_give_name(*ret_sem, msg->name);
	if (r < 0)
		sem_free(*ret_sem);
	return r;
}

/* ---- parts in it ----------------------------------------------------------------------------- */

static bool is_taken(const struct psid_sem *sem, uint32_t number)
{
	return psid_map_find(&sem->holds, number) != NULL;
}

/* Not to be guessed: what was marked under another psid must not be taken for this one's. */
static int draw_number(const struct psid_sem *sem, uint32_t *ret_number)
{
	do
		if (getrandom(ret_number, sizeof(*ret_number), 0) < 0)
			return -ENOMEM;
	while (*ret_number == 0 || is_taken(sem, *ret_number));
	return 0;
}

/* A part of its own for each time that it is opened. `number`: of who comes back; 0. Returns 0;
 * -ENOMEM; anything else: a limit. */
static int hold_new(struct psid_client *client, struct psid_sem *sem, uint32_t number,
		    struct psid_sem_hold **ret)
{
	struct psid_sem_hold *hold;
	int r;

	if (number ? is_taken(sem, number) : draw_number(sem, &number) < 0)
		return -ENOMEM;
	r = psid_user_take_bytes(client->user, sizeof(*hold));
	if (r != 0)
		return r;
	hold = calloc(1, sizeof(*hold));
	if (!hold || psid_map_insert(&sem->holds, &hold->by_number, number) < 0) {
		free(hold);
		psid_user_give_bytes(client->user, sizeof(*hold));
		return -ENOMEM;
	}
	hold->number = number;
	hold->sem = sem;
	hold->client = client;
	LIST_INSERT_HEAD(&client->sems, hold, by_client);
	client->n_sems++;
	STEP(SEM_HELD);
	*ret = hold;
	return 0;
}

static void hold_free(struct psid_sem_hold *hold)
{
	struct psid_sem *sem = hold->sem;
	struct shm_sem_view view = { .sem = sem->page, .n = sem->n, .holder = hold->number };

	if (psid_memory_allocate(sem->page, SHM_PAGE) == 0)
		shm_sem_forget(&view);
	STEP(SEM_FORGOTTEN);
	psid_map_remove(&sem->holds, &hold->by_number);
	LIST_REMOVE(hold, by_client);
	hold->client->n_sems--;
	psid_user_give_bytes(hold->client->user, sizeof(*hold));
	free(hold);
	if (sem->holds.n == 0)
		sem_free(sem);
}

/* The client takes part, if it may have one more. A semaphore that nobody takes part in then is
 * gone. */
static int take_part(struct psid_client *client, struct psid_sem *sem, uint32_t number,
		     struct psid_sem_hold **ret)
{
	int r = client->n_sems < N_SEMS_CLIENT ? hold_new(client, sem, number, ret) : -EMFILE;

	if (r != 0 && sem->holds.n == 0)
		sem_free(sem);
	return r;
}

static void fill(Pulc__Wire__PortReply *reply, int r, const struct psid_sem_hold *hold)
{
	reply->error = error_of(r);
	if (!hold)
		return;
	reply->holder = hold->number;
	reply->count = hold->sem->n;
	reply->all = hold->sem->all;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool makes_sense(uint32_t count, bool held)
{
	return held ? count > 0 && count <= SHM_SEM_N_HELD : count <= SHM_SEM_MAX;
}

static bool may(const struct psid_client *client, const struct psid_sem *sem)
{
	return sem->all || client->user == sem->user || client->user->uid == 0;
}

int psid_sem_open(struct psid_client *client, const Pulc__Wire__SemOpen *msg)
{
	Pulc__Wire__PortReply reply = PULC__WIRE__PORT_REPLY__INIT;
	PSID_MESSAGE(answer, PORT_REPLY, port_reply) = &reply;
	struct psid_sem_hold *hold = NULL;
	struct psid_sem *sem;
	int r = 0;

	if (strlen(msg->name) > PSID_PORT_NAME_MAX || !makes_sense(msg->count, msg->held))
		return -EBADMSG;
	sem = msg->name[0] ? sem_named(client->psid, msg->name) : NULL;
	reply.request = msg->request;
	reply.made = !sem;
	if (sem && (!may(client, sem) || msg->held != (sem->n > 0))) {
		reply.error = PULC__WIRE__PORT_ERROR__PORT_ERROR_TAKEN;
		(void)psid_client_send(client, &answer, NULL, 0);
		return 0;
	}
	if (!sem)
		r = sem_make(client, msg, &sem);
	STEP(SEM_MADE);
	if (r == 0)
		r = take_part(client, sem, 0, &hold);
	fill(&reply, r, hold);
	r = psid_client_send(client, &answer, hold ? &hold->sem->fd : NULL, hold ? 1 : 0);
	if (!hold || r != -EMFILE)
		return 0;
	hold_free(hold);
	pulc__wire__port_reply__init(&reply);
	reply.request = msg->request;
	fill(&reply, r, NULL);
	(void)psid_client_send(client, &answer, NULL, 0);
	return 0;
}

/* The one that this is, or what becomes one again. 0; -ENOMEM; anything else: a limit. NULL: it is
 * not for this client. */
static int sem_shown(struct psid_client *client, const Pulc__Wire__SemJoin *msg, int *fd,
		     uint64_t ino, struct psid_sem **ret_sem)
{
	int r;

	*ret_sem = sem_by_ino(client->psid, ino);
	if (*ret_sem) {
		/* Who comes back has been let in before. A child may have become another user
		 * since. */
		if (!msg->holder && !may(client, *ret_sem))
			*ret_sem = NULL;
		return 0;
	}
	if (psid_descriptor_is_reserve(*fd))
		return -EMFILE;
	r = sem_new(client, TAKE_FD(*fd), ino, ret_sem);
	if (r != 0)
		return r;
	(*ret_sem)->n = msg->held ? msg->count : 0;
	(*ret_sem)->all = msg->all;
	/* If somebody has made another one of that name meanwhile, this one is shared by those who
	 * have it. */
	if (msg->name[0] && !sem_named(client->psid, msg->name))
		(void)sem_give_name(*ret_sem, msg->name);
	return 0;
}

int psid_sem_join(struct psid_client *client, const Pulc__Wire__SemJoin *msg, int *fd)
{
	Pulc__Wire__PortReply reply = PULC__WIRE__PORT_REPLY__INIT;
	PSID_MESSAGE(answer, PORT_REPLY, port_reply) = &reply;
	struct psid_sem_hold *hold = NULL;
	struct psid_sem *sem = NULL;
	uint64_t ino, size;
	int r;

	if (strlen(msg->name) > PSID_PORT_NAME_MAX || !makes_sense(msg->count, msg->held) ||
	    psid_memory_check(*fd, &ino, &size) < 0 || size != SHM_PAGE)
		return -EBADMSG;
	reply.request = msg->request;
	r = sem_shown(client, msg, fd, ino, &sem);
	if (r == 0 && sem)
		r = take_part(client, sem, msg->holder, &hold);
	fill(&reply, r, hold);
	/* He has it, and does not wait for the answer. */
	if (msg->holder)
		reply.holder = 0;
	if (r == 0 && !sem)
		reply.error = PULC__WIRE__PORT_ERROR__PORT_ERROR_ABSENT;
	(void)psid_client_send(client, &answer, NULL, 0);
	return 0;
}

int psid_sem_close(struct psid_client *client, uint32_t holder)
{
	struct psid_sem_hold *hold;

	LIST_FOREACH(hold, &client->sems, by_client)
		if (hold->number == holder) {
			hold_free(hold);
			return 0;
		}
	/* It is another psid's. */
	return 0;
}

void psid_sems_forget(struct psid_client *client)
{
	struct psid_sem_hold *hold;

	while ((hold = LIST_FIRST(&client->sems)))
		hold_free(hold);
}
