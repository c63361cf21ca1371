/* SPDX-License-Identifier: Apache-2.0
 *
 * One local file, read by position. The size and the modification time come from the opened descriptor, so that they
 * belong to the bytes that are read, whatever happens to the name meanwhile. Only regular files are opened: a pipe or a
 * device could block for ever.
 */
#ifndef STK_STORE_FILE_H
#define STK_STORE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

struct stk_file {
    int fd;
    uint64_t size;
    int64_t mtime_ns;
};

/* Opens for reading and fills *out_file. NOT_FOUND, UNSUPPORTED (not a regular file), IO; the message names the path.
 */
stoker_status stk_file_open(const char *path, struct stk_file *out_file, stoker_error *err);
void stk_file_close(struct stk_file *file); /* NULL and closed files allowed */

/* Reads up to `size` bytes at `offset`; *out_read below `size` means the end of the file. IO. */
stoker_status stk_file_read(const struct stk_file *file, uint64_t offset, void *out, size_t size, size_t *out_read,
                            stoker_error *err);

/* Size and time of a path without opening it. False if there is no regular file that we may look at. */
int stk_file_facts(const char *path, uint64_t *out_size, int64_t *out_mtime_ns);

#endif
