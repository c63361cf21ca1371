/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar archives by position: which members a shard holds and where their bytes lie, found by walking its headers once.
 * Nothing is unpacked, and no name is used as a path.
 *
 * Read are the formats that programs write today: ustar, GNU (long names, sizes above 8 GiB) and pax (path and size).
 * Folders, links and devices are passed over. Refused, with the place: compressed archives, sparse members (their bytes
 * do not lie in a row), archives that are cut, headers whose sum is wrong.
 *
 * The walk reads the headers and skips the data, through a window: small members cost no read of their own.
 */
#ifndef STK_STORE_TAR_H
#define STK_STORE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "store/file.h"

#define STK_TAR_NAME_BYTES_MAX 4095u

struct stk_tar_member {
    uint64_t offset, size; /* of the data in the archive */
    const char *name;      /* without a leading "./"; 1 to 4,095 bytes, no zero byte among them */
    size_t name_size;
};

/* Gets each regular member in the order of the archive; the name is borrowed for the call. A failure ends the walk. */
typedef stoker_status (*stk_tar_fn)(void *user, const struct stk_tar_member *member, stoker_error *err);

/* CORRUPT, UNSUPPORTED (naming the offset), IO, NO_MEMORY, or what `member_fn` returned. */
stoker_status stk_tar_walk(const struct stk_file *file, stk_tar_fn member_fn, void *user, stoker_error *err);

/* Is this member still where a walk has found it? Reads the header before its data; a shard that was put in the
 * place of another one may have the same size and time. MISMATCH, IO. */
stoker_status stk_tar_expect(const struct stk_file *file, const struct stk_tar_member *member, stoker_error *err);

/* The parts of a member's name in the convention of WebDataset: the key is all before the first dot of the last part of
 * the path (one at its start does not count), the extension all after it. "a.b/c.left.jpg" is "a.b/c" and "left.jpg".
 * Returns the size of the key; the
 * extension begins one byte after it, or is empty where there is no dot (*out_has_extension false). */
size_t stk_tar_key_size(const char *name, size_t name_size, bool *out_has_extension);

#endif
