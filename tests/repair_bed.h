/* Two ends of the repair layer over tests/fake_hal.c. */
#ifndef PULC_TESTS_REPAIR_BED_H
#define PULC_TESTS_REPAIR_BED_H

#include "clock.h"
#include "fake_hal.h"
#include "repair.h"

#define MSEC (1000 * NSEC_PER_USEC)

struct bed {
	struct fake_pair fake;
	struct hal_link *link[2];
};

/* A HAL that promises nothing, and loses nothing. */
extern const struct fake_config bed_usual;

/* The clock is the fake's. repair may be NULL. */
void bed_init(struct bed *b, const struct fake_config *fake,
	      const struct hal_repair_config *repair);
/* Also checks that the contract was kept. */
void bed_deinit(struct bed *b);
/* A little time passes, and both ends look. */
void bed_step(void *bed);
/* A frame whose bytes follow from its word. */
int bed_send(struct hal_link *link, uint64_t word, uint32_t len);
/* The frame is there: is it this one, whole? */
void bed_expect(struct hal_link *link, uint64_t word, uint32_t len);

#endif
