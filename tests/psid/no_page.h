/* A page that does not come: the kernel waits for it in the midst of a system call. */
#ifndef PULC_TESTS_PSID_NO_PAGE_H
#define PULC_TESTS_PSID_NO_PAGE_H

#include <stdbool.h>

struct no_page {
	int faults;
	void *at;
};

/* False: it cannot be had here, and the test is skipped. */
bool no_page_init(struct no_page *page);
/* Waits until somebody waits for it. */
void no_page_wait(const struct no_page *page);
/* It comes after all. */
void no_page_come(struct no_page *page);
void no_page_deinit(struct no_page *page);

#endif
