/* The book of partitions in a file. */
#ifndef PULC_PSID_BOOK_FILE_H
#define PULC_PSID_BOOK_FILE_H

#include "book.h"

#define PSID_SIZE_BOOK (PSID_N_PARTITIONS_MAX * (PSID_SIZE_PARTITION + 4u) + 16u)

/* What the file is to contain; free it. Returns 0, -ENOMEM. */
int psid_book_pack(const struct psid_book *book, uint8_t **ret_bytes, size_t *ret_len);
/* Takes what is in the bytes of a file. Returns 0; -EBADMSG: they are damaged, and nothing was
 * taken; -ENOMEM. */
int psid_book_unpack(struct psid_book *book, const uint8_t *bytes, size_t len);
/*
 * Puts a file in the place of the one at path, all of it or nothing, and makes its folder if need
 * be. Blocks. Returns 0, negative errno.
 */
int psid_book_write(const char *path, const uint8_t *bytes, size_t len);
/* Reads it. Returns as psid_book_unpack; -ENOENT: there is none; other negative errno. */
int psid_book_read(struct psid_book *book, const char *path);

#endif
