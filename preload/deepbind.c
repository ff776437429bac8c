/*
 * Libraries that are loaded with RTLD_DEEPBIND.
 *
 * Such a library, and what is loaded with it, looks for a function among its own libraries first, libc's among them, and only then among the program's, where
 * the shim is. So its calls would pass the shim by, and a connection that the program has brought into rings would be another one to it: what
 * it sends is lost, what it waits for never comes. PHP loads each of its extensions so.
 *
 * The flag stays as it is, for what else the library finds by it. But once it is loaded, its references to functions of symbols.def are pointed here, those
 * that were looked up already and those that are to be at their first call. What it does while it is being loaded, in its constructors, passes by.
 *
 * The caller of dlopen() is told by its return address: by that libc knows in which folders a name without a slash is looked for. So a call that is none of these
 * is passed on by a jump. One with a name alone cannot be: such a library's connections can't be kept apart, and the program is left alone from then on.
 *
 * Left out: dlmopen(), whose libraries have a libc of their own.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
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

/* ---- libraries ------------------------------------------------------------------------------------- */

/* Where those lie that are there already. */
struct known {
	ElfW(Addr) * bases;
	size_t n, size;
};

/* What a library's dynamic section says. */
struct module {
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * calls, *others;
	size_t size_calls, size_others;
	uintptr_t relro, relro_end; /* whole pages of it are read-only since it was loaded */
};

static int remember(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct known *known = arg;

	(void)size;
	if (known->n < known->size)
		known->bases[known->n] = info->dlpi_addr;
	known->n++;
	return 0;
}

static bool is_known(const struct known *known, ElfW(Addr) base)
{
	for (size_t i = 0; i < known->n && i < known->size; i++)
		if (known->bases[i] == base)
			return true;
	return false;
}

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

/* ---- the shim's functions ------------------------------------------------------------------------- */

struct entry {
	const char *name;
	void *function; /* NULL: somebody stands before the shim */
};

static const char names[] =
#define PRE_FD(served, ret, name, sys, n, ...) #name "\0"
#define PRE_CHECKED(ret, name, of, args, fits, n, ...) #name "\0"
#define PRE_SAME(name, of) #name "\0"
#define PRE_LATE(served, ret, name, sys, n, ...)
#include "symbols.def"
	;

struct table {
	size_t n;
	struct entry entries[]; /* sorted by name */
};

/* Made once, and kept. Looked up before the libraries are visited, when libc's lock may not be taken. */
static struct table *_Atomic table;

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* What other libraries find under that name, if it is the shim's. */
static void *ours(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	Dl_info of_found, of_us;

	return found && dladdr(found, &of_found) && dladdr(names, &of_us) &&
			       of_found.dli_fbase == of_us.dli_fbase
		       ? found
		       : NULL;
}

static struct table *make_table(void)
{
	struct table *made;
	size_t n = 0;

	for (const char *name = names; *name; name += strlen(name) + 1)
		n++;
	made = malloc(sizeof(*made) + n * sizeof(made->entries[0]));
	if (!made)
		return NULL;
	made->n = 0;
	for (const char *name = names; *name; name += strlen(name) + 1)
		made->entries[made->n++] = (struct entry){ name, ours(name) };
	qsort(made->entries, n, sizeof(made->entries[0]), compare);
	return made;
}

/* Another thread may make it too. */
static bool have_table(void)
{
	struct table *made, *none = NULL;

	if (atomic_load(&table))
		return true;
	made = make_table();
	if (made && !atomic_compare_exchange_strong(&table, &none, made))
		free(made);
	return atomic_load(&table) != NULL;
}

static void *entry_of(const char *name)
{
	const struct table *t = atomic_load(&table);
	const struct entry wanted = { .name = name };
	const struct entry *found = bsearch(&wanted, t->entries, t->n, sizeof(t->entries[0]),
					    compare);

	return found ? found->function : NULL;
}

/* ---- a library's references ----------------------------------------------------------------------- */

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
		function = entry_of(m->names + symbol->st_name);
		if (function && *slot != function)
			point(m, slot, function);
	}
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct module m = { .base = info->dlpi_addr };
	const ElfW(Dyn) *dynamic = NULL;

	(void)size;
	if (is_known(arg, info->dlpi_addr))
		return 0;
	for (const ElfW(Phdr) *p = info->dlpi_phdr; p < info->dlpi_phdr + info->dlpi_phnum; p++) {
		if (p->p_type == PT_DYNAMIC)
			dynamic = (const void *)(m.base + p->p_vaddr);
		if (p->p_type == PT_GNU_RELRO) {
			m.relro = m.base + p->p_vaddr;
			m.relro_end = m.relro + p->p_memsz;
		}
	}
	if (!dynamic)
		return 0;
	read_dynamic(&m, dynamic);
	if (!m.symbols || !m.names)
		return 0;
	point_all(&m, m.calls, m.size_calls);
	point_all(&m, m.others, m.size_others);
	return 0;
}

/* ---- loading --------------------------------------------------------------------------------------- */

/* Room for more than there are, for another thread may load some meanwhile: one of those is taken for one of ours, which changes nothing for it. */
static bool remember_all(struct known *known)
{
	struct known count = { 0 };

	(void)dl_iterate_phdr(remember, &count);
	known->size = count.n + 16;
	known->bases = calloc(known->size, sizeof(*known->bases));
	if (!known->bases)
		return false;
	(void)dl_iterate_phdr(remember, known);
	return true;
}

static __attribute__((noinline)) void *load_deep(const char *path, int flags)
{
	struct known known = { 0 };
	void *handle;

	if (!have_table() || !remember_all(&known))
		pre_step_aside();
	handle = pre_real.dlopen(path, flags);
	if (handle && known.bases)
		(void)dl_iterate_phdr(visit, &known);
	free(known.bases);
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
