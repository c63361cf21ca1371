/* SPDX-License-Identifier: Apache-2.0
 *
 * One local file, read by position. The size and the modification time come from the opened descriptor, so that they
 * belong to the bytes that are read, whatever happens to the name meanwhile. Only regular files are opened: a pipe or a
 * device could block for ever.
 *
 * What reads a file by position can read a part of one, too (a member of an archive), and an object in storage: both
 * are the same struct, so that nobody above has to know.
 */
#ifndef STK_STORE_FILE_H
#define STK_STORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

struct stk_range;

struct stk_file {
    int fd; /* -1: an object */
    uint64_t size;
    int64_t mtime_ns; /* of an object: a number that changes with its version, 0 if its server tells none */
    bool part;        /* `size` bytes at `base` are all that is read */
    uint64_t base;
    struct stk_range *range; /* of an object, owned; else NULL */
};

/* Opens for reading and fills *out_file. NOT_FOUND, UNSUPPORTED (not a regular file), IO; the message names the path.
 */
stoker_status stk_file_open(const char *path, struct stk_file *out_file, stoker_error *err);
/* An object behind an address (range.h), through a cache of a few blocks; asks its server for the size. `options` may
 * be NULL. As stk_range_open_url() and stk_range_size(). */
stoker_status stk_file_open_object(const char *url, const stoker_object_options *options, struct stk_file *out_file,
                                   stoker_error *err);
/* From now on only `size` bytes at `offset` are there. CORRUPT if they reach past the end. The time stays. */
stoker_status stk_file_narrow(struct stk_file *file, uint64_t offset, uint64_t size, stoker_error *err);
void stk_file_close(struct stk_file *file); /* NULL and closed files allowed */

/* Reads up to `size` bytes at `offset`; *out_read below `size` means the end of the file. IO. */
stoker_status stk_file_read(const struct stk_file *file, uint64_t offset, void *out, size_t size, size_t *out_read,
                            stoker_error *err);

/* Size and time of a path without opening it. False if there is no regular file that we may look at. */
int stk_file_facts(const char *path, uint64_t *out_size, int64_t *out_mtime_ns);

#endif
