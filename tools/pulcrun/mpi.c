/*
 * Is it an MPI program, and of which kind? A program says so in its list of needed libraries, or
 * one of those libraries does in its own. That list is read from the file as the loader would,
 * without running anything; libraries are looked for where Debian has them and in LD_LIBRARY_PATH.
 *
 * A PMIx server costs some tens of milliseconds, so it is there only for programs that need one,
 * and for scripts and interpreters, of which nobody knows what they will start.
 */
#include "mpi.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "macros.h"
#include "program.h"

#define N_LIBRARIES_MAX 64u
#define SIZE_NAME 128

static const char *const interpreters[] = { "sh",     "bash", "dash", "ksh",   "zsh",	  "env",
					    "python", "perl", "ruby", "julia", "Rscript", "lua" };
static const char *const folders[] = { "/lib/x86_64-linux-gnu",
				       "/usr/lib/x86_64-linux-gnu",
				       "/lib/aarch64-linux-gnu",
				       "/usr/lib/aarch64-linux-gnu",
				       "/usr/local/lib",
				       "/usr/lib",
				       "/lib64",
				       "/usr/lib64" };

struct search {
	char names[N_LIBRARIES_MAX][SIZE_NAME];
	size_t n, next;
	enum mpi_kind kind;
};

struct image {
	const uint8_t *bytes;
	size_t size;
};

static bool fits(const struct image *image, uint64_t at, uint64_t len)
{
	return at <= image->size && len <= image->size - at;
}

static enum mpi_kind kind_of_library(const char *name)
{
	if (strncmp(name, "libmpi.so.40", 12) == 0 || strncmp(name, "libmpi.so.20", 12) == 0 ||
	    strncmp(name, "libopen-rte", 11) == 0 || strncmp(name, "libpmix", 7) == 0)
		return MPI_KIND_OPENMPI;
	if (strncmp(name, "libmpich", 8) == 0 || strncmp(name, "libmpi.so", 9) == 0)
		return MPI_KIND_PMI;
	return MPI_KIND_NONE;
}

static bool is_plain(const char *name)
{
	return strncmp(name, "libc.so", 7) == 0 || strncmp(name, "ld-linux", 8) == 0 ||
	       strncmp(name, "libm.so", 7) == 0 || strncmp(name, "libpthread", 10) == 0 ||
	       strncmp(name, "libdl.so", 8) == 0 || strncmp(name, "libgcc_s", 8) == 0 ||
	       strncmp(name, "libstdc++", 9) == 0;
}

static void take_library(struct search *search, const char *name)
{
	enum mpi_kind kind = kind_of_library(name);

	if (kind != MPI_KIND_NONE)
		search->kind = kind;
	if (kind != MPI_KIND_NONE || is_plain(name) || strlen(name) >= SIZE_NAME)
		return;
	for (size_t i = 0; i < search->n; i++)
		if (strcmp(search->names[i], name) == 0)
			return;
	if (search->n < N_LIBRARIES_MAX)
		(void)strcpy(search->names[search->n++], name);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Where in the file an address of the program is; 0: nowhere. */
static uint64_t offset_of(const struct image *image, const Elf64_Ehdr *h, uint64_t address)
{
	for (unsigned i = 0; i < h->e_phnum; i++) {
		uint64_t at = h->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
		Elf64_Phdr p;

		if (!fits(image, at, sizeof(p)))
			return 0;
		memcpy(&p, image->bytes + at, sizeof(p));
		if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr < p.p_filesz)
			return address - p.p_vaddr + p.p_offset;
	}
	return 0;
}

static void read_dynamic(struct search *search, const struct image *image, const Elf64_Ehdr *h,
			 const Elf64_Phdr *dynamic)
{
	uint64_t strings = 0;
	size_t n = dynamic->p_filesz / sizeof(Elf64_Dyn);
	Elf64_Dyn entry;

	if (!fits(image, dynamic->p_offset, n * sizeof(entry)))
		return;
	for (int pass = 0; pass < 2; pass++) /* the strings' place first, then what is needed */
		for (size_t i = 0; i < n; i++) {
			uint64_t at;

			memcpy(&entry, image->bytes + dynamic->p_offset + i * sizeof(entry),
			       sizeof(entry));
			if (entry.d_tag == DT_STRTAB)
				strings = offset_of(image, h, entry.d_un.d_ptr);
			at = strings + entry.d_un.d_val;
			if (pass == 1 && entry.d_tag == DT_NEEDED && strings &&
			    fits(image, at, 1) && memchr(image->bytes + at, '\0', image->size - at))
				take_library(search, (const char *)image->bytes + at);
		}
}

static void read_elf(struct search *search, const struct image *image)
{
	Elf64_Ehdr h;

	if (!fits(image, 0, sizeof(h)))
		return;
	memcpy(&h, image->bytes, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_phentsize != sizeof(Elf64_Phdr))
		return;
	for (unsigned i = 0; i < h.e_phnum; i++) {
		uint64_t at = h.e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
		Elf64_Phdr p;

		if (!fits(image, at, sizeof(p)))
			return;
		memcpy(&p, image->bytes + at, sizeof(p));
		if (p.p_type == PT_DYNAMIC)
			read_dynamic(search, image, &h, &p);
	}
}

/* Returns 0, or negative: there is no such file. */
static int read_file(struct search *search, const char *path)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	struct image image;
	void *bytes;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 4)
		return -ENOENT;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	image = (struct image){ bytes, (size_t)st.st_size };
	if (memcmp(bytes, "#!", 2) == 0 && search->kind == MPI_KIND_NONE)
		search->kind = MPI_KIND_UNKNOWN;
	read_elf(search, &image);
	(void)munmap(bytes, image.size);
	return 0;
}

/* ---- the search ------------------------------------------------------------------------------ */

static void read_library(struct search *search, const char *name)
{
	const char *list = getenv("LD_LIBRARY_PATH");
	char path[PATH_MAX];

	for (const char *dir = list; dir && *dir;
	     dir = strchr(dir, ':') ? strchr(dir, ':') + 1 : NULL) {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(dir, ":"), dir, name);
		if (read_file(search, path) == 0)
			return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folders[i], name);
		if (read_file(search, path) == 0)
			return;
	}
}

static bool is_interpreter(const char *name)
{
	const char *slash = strrchr(name, '/');

	name = slash ? slash + 1 : name;
	for (size_t i = 0; i < ARRAY_SIZE(interpreters); i++) {
		size_t len = strlen(interpreters[i]);

		if (strncmp(name, interpreters[i], len) == 0 &&
		    !strpbrk(name + len, "abcdefghijklmnopqrstuvwxyz"))
			return true;
	}
	return false;
}

enum mpi_kind mpi_of_program(char *const *arguments)
{
	struct search search = { .kind = MPI_KIND_NONE };
	char path[PATH_MAX];

	for (size_t i = 0;
	     arguments[i] && search.kind != MPI_KIND_OPENMPI && search.kind != MPI_KIND_PMI; i++) {
		if (i > 0 && (arguments[i][0] == '-' || !strchr(arguments[i], '/')))
			continue;
		if (run_find_program(arguments[i], path, sizeof(path)) < 0)
			continue;
		if (is_interpreter(path))
			search.kind = MPI_KIND_UNKNOWN;
		(void)read_file(&search, path);
		while (search.next < search.n && search.kind <= MPI_KIND_NONE)
			read_library(&search, search.names[search.next++]);
	}
	return search.kind;
}
