/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a list that are objects in storage: how they are reached, as a part of the blob, and opening them.
 *
 * The part (little-endian): magic (4), bytes of the part (4), path_style and retries (4 each), three durations in ns
 * (8 each), then nine texts in the order of stoker_object_options, each ended by a zero byte; an empty one is none. It
 * has the keys of the caller: a blob is memory that only processes of this user are handed.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#ifndef STK_SOURCE_REMOTE_H
#define STK_SOURCE_REMOTE_H

#include "source/files.h"

/* Bytes of the part; 0: the list has no options. */
size_t stk_remote_size(const stoker_path_list *list);
void stk_remote_put(uint8_t *part, const stoker_path_list *list);
/* Reads the part if there is one; *out_size is its size, or 0. CORRUPT. */
stoker_status stk_remote_check(struct stk_files *files, const uint8_t *part, size_t size, size_t *out_size,
                               stoker_error *err);

/* Opens an object. As stk_file_open_object(). */
stoker_status stk_remote_open(const struct stk_files *files, const char *url, struct stk_file *out_file,
                              stoker_error *err);

#endif
