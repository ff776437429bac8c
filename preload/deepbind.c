/*
 * Libraries that are loaded with RTLD_DEEPBIND.
 *
 * Such a library, and what is loaded with it, looks for a function among its own libraries first,
 * libc's among them, and only then among the program's, where the shim is. So its calls would pass
 * the shim by, and a connection that the program has brought into rings would be another one to it:
 * what it sends is lost, what it waits for never comes. PHP loads each of its extensions so.
 *
 * The flag stays as it is, for what else the library finds by it. But once it is loaded, its
 * references to functions of symbols.def are pointed here, those that were looked up already and
 * those that are to be at their first call. What it does while it is being loaded, in its
 * constructors, passes by.
 *
 * The caller of dlopen() is told by its return address: by that libc knows in which folders a name
 * without a slash is looked for. So a call that is none of these is passed on by a jump. One with a
 * name alone cannot be: such a library's connections can't be kept apart, and the program is left
 * alone from then on.
 *
 * Which libraries have come is known by comparing lists. Another thread may load some meanwhile,
 * that are not ready or go again. So each is held while it is looked at, as if it had been opened
 * once more, for which libc waits until it is ready; for one that would have found the shim itself
 * nothing changes.
 *
 * Left out: dlmopen(), whose libraries have a libc of their own.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data.h"
#include "symbols.h"

#if defined(__x86_64__)
#define RELOCATES_CALL R_X86_64_JUMP_SLOT
#define RELOCATES_POINTER R_X86_64_GLOB_DAT
#define RELOCATES_WORD R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATES_CALL R_AARCH64_JUMP_SLOT
#define RELOCATES_POINTER R_AARCH64_GLOB_DAT
#define RELOCATES_WORD R_AARCH64_ABS64
#endif

/* ---- libraries ------------------------------------------------------------------------------- */

/* Where those lie that were there before, and the names of those that have come, one behind the
 * other. */
struct libraries {
	ElfW(Addr) * known;
	size_t n_known, n_known_max;
	char *names;
	size_t size_names, size_names_max;
};

static int remember(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct libraries *l = arg;

	(void)size;
	if (l->n_known < l->n_known_max)
		l->known[l->n_known] = info->dlpi_addr;
	l->n_known++;
	return 0;
}

static bool is_known(const struct libraries *l, ElfW(Addr) base)
{
	for (size_t i = 0; i < l->n_known && i < l->n_known_max; i++)
		if (l->known[i] == base)
			return true;
	return false;
}

static int name(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct libraries *l = arg;
	size_t len = strlen(info->dlpi_name) + 1;

	(void)size;
	if (is_known(l, info->dlpi_addr))
		return 0;
	if (l->size_names + len <= l->size_names_max)
		memcpy(l->names + l->size_names, info->dlpi_name, len);
	l->size_names += len;
	return 0;
}

/* Lists are counted first, then written. What comes in between is another thread's. */
static bool remember_all(struct libraries *l)
{
	(void)dl_iterate_phdr(remember, l);
	l->known = calloc(l->n_known, sizeof(*l->known));
	if (!l->known)
		return false;
	l->n_known_max = l->n_known;
	l->n_known = 0;
	(void)dl_iterate_phdr(remember, l);
	return true;
}

static bool name_all(struct libraries *l)
{
	(void)dl_iterate_phdr(name, l);
	l->names = malloc(l->size_names + 1);
	if (!l->names)
		return false;
	l->size_names_max = l->size_names;
	l->size_names = 0;
	(void)dl_iterate_phdr(name, l);
	l->size_names = l->size_names < l->size_names_max ? l->size_names : l->size_names_max;
	return true;
}

/* ---- a library's references ------------------------------------------------------------------ */

/* What its dynamic section says, and its headers. */
struct module {
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * calls, *others;
	size_t size_calls, size_others;
	uintptr_t relro, relro_end; /* whole pages of it are read-only since it was loaded */
};

/* libc has added the base to the addresses there, where it may write. */
static const void *at(const struct module *m, ElfW(Addr) address)
{
	return (const void *)(address < m->base ? m->base + address : address);
}

static void read_dynamic(struct module *m, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			m->symbols = at(m, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			m->names = at(m, d->d_un.d_ptr);
			break;
		case DT_JMPREL:
			m->calls = at(m, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			m->size_calls = d->d_un.d_val;
			break;
		case DT_RELA:
			m->others = at(m, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			m->size_others = d->d_un.d_val;
			break;
		default:
			break;
		}
}

static int read_headers(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct module *m = arg;

	(void)size;
	if (info->dlpi_addr != m->base)
		return 0;
	for (const ElfW(Phdr) *p = info->dlpi_phdr; p < info->dlpi_phdr + info->dlpi_phnum; p++)
		if (p->p_type == PT_GNU_RELRO) {
			m->relro = m->base + p->p_vaddr;
			m->relro_end = m->relro + p->p_memsz;
		}
	return 1;
}

static void point(const struct module *m, void **slot, void *function)
{
	uintptr_t size_page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t place = (uintptr_t)slot, page = place & ~(size_page - 1);
	bool locked = place >= m->relro && place < (m->relro_end & ~(size_page - 1));

	if (locked && mprotect((void *)page, size_page, PROT_READ | PROT_WRITE) < 0)
		return;
	__atomic_store_n(slot, function, __ATOMIC_RELEASE);
	if (locked)
		(void)mprotect((void *)page, size_page, PROT_READ);
}

/* Where it is called by, or a variable that it is kept in. */
static bool is_reference(const ElfW(Rela) * r)
{
	switch (ELF64_R_TYPE(r->r_info)) {
	case RELOCATES_CALL:
	case RELOCATES_POINTER:
		return true;
	case RELOCATES_WORD:
		return r->r_addend == 0;
	default:
		return false;
	}
}

static void point_all(const struct module *m, const ElfW(Rela) * r, size_t size)
{
	for (const ElfW(Rela) *end = r + size / sizeof(*r); r && r < end; r++) {
		const ElfW(Sym) *symbol = &m->symbols[ELF64_R_SYM(r->r_info)];
		void **slot = (void **)(m->base + r->r_offset), *function;

		if (!is_reference(r) || symbol->st_shndx != SHN_UNDEF)
			continue;
		function = pre_look_here(m->names + symbol->st_name);
		if (function && *slot != function)
			point(m, slot, function);
	}
}

static void point_those_of(const char *library)
{
	void *handle = pre_real.dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	struct link_map *map = NULL;
	struct module m = { 0 };

	if (!handle)
		return;
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
		m.base = map->l_addr;
		read_dynamic(&m, map->l_ld);
		(void)dl_iterate_phdr(read_headers, &m);
	}
	if (m.symbols && m.names) {
		point_all(&m, m.calls, m.size_calls);
		point_all(&m, m.others, m.size_others);
	}
	(void)dlclose(handle);
}

/* ---- loading --------------------------------------------------------------------------------- */

static __attribute__((noinline)) void *load_deep(const char *path, int flags)
{
	struct libraries l = { 0 };
	bool knows = remember_all(&l);
	void *handle = pre_real.dlopen(path, flags);

	if (handle && knows && name_all(&l)) {
		for (const char *at = l.names; at < l.names + l.size_names; at += strlen(at) + 1)
			point_those_of(at);
		/* Of functions that nobody has: none of the program's. */
		(void)dlerror();
	} else if (handle) {
		pre_step_aside();
	}
	free(l.names);
	free(l.known);
	return handle;
}

void *pre_dlopen(const char *path, int flags)
{
	if (__builtin_expect(!(flags & RTLD_DEEPBIND) || !path || !pre_enabled, 1))
		return pre_real.dlopen(path, flags);
	if (strchr(path, '/'))
		return load_deep(path, flags);
	pre_step_aside();
	return pre_real.dlopen(path, flags);
}
