/*
 * A page that does not come; see the header. Whoever has FUSE mounted can have such pages without
 * any rights; here a userfaultfd does it.
 */
#include "psid/no_page.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

#define SIZE 4096

bool no_page_init(struct no_page *page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register pages = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	page->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (page->faults < 0) {
		test_skip("needs faults of the kernel's to be held up (userfaultfd)");
		return false;
	}
	page->at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(page->at != MAP_FAILED);
	pages.range.start = (uintptr_t)page->at;
	pages.range.len = SIZE;
	REQUIRE(ioctl(page->faults, UFFDIO_API, &api) == 0);
	REQUIRE(ioctl(page->faults, UFFDIO_REGISTER, &pages) == 0);
	return true;
}

void no_page_wait(const struct no_page *page)
{
	struct pollfd fault = { .fd = page->faults, .events = POLLIN };

	REQUIRE_INT(poll(&fault, 1, 10000), ==, 1);
}

void no_page_come(struct no_page *page)
{
	(void)close(page->faults);
}

void no_page_deinit(struct no_page *page)
{
	(void)munmap(page->at, SIZE);
}
