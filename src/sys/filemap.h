/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as memory. A file that is mapped for writing has its blocks reserved first, so that a full disk is an error of
 * the call and not a SIGBUS of a later store.
 */
#ifndef STK_SYS_FILEMAP_H
#define STK_SYS_FILEMAP_H

#include <stddef.h>

#include <stoker/error.h>

/* Maps the first `size` bytes (at least 1) read-only. The descriptor may be closed afterwards. LIMIT: this process has
 * as many mappings as the kernel allows (vm.max_map_count). */
stoker_status stk_filemap_read(int fd, size_t size, const void **out_data, stoker_error *err);
/* Makes the file `size` bytes long, reserves them on disk and maps them for writing. NO_SPACE, IO, LIMIT. */
stoker_status stk_filemap_create(int fd, size_t size, void **out_data, stoker_error *err);
/* Zeroed memory that belongs to no file, in huge pages where the system gives them. */
stoker_status stk_filemap_memory(size_t size, void **out_data, stoker_error *err);
/* These bytes of a mapped file will hardly be touched again: their pages leave this process, not the file. Only whole
 * pages inside are meant. Not for memory that belongs to no file: it would be lost. */
void stk_filemap_forget(void *data, size_t size);
/* From now on the pages can only be read. */
void stk_filemap_seal(void *data, size_t size);
/* A hint: huge pages for those of these bytes that were not touched yet, whoever allocated them. Nothing if few. */
void stk_filemap_hint_huge(void *data, size_t size);
void stk_filemap_close(const void *data, size_t size); /* NULL allowed */

#endif
