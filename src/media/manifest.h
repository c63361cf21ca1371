/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests inside the library: an opened one (the stoker_manifest of the public API), the entries of one as values,
 * where they come from, and writing a whole one.
 */
#ifndef STK_MEDIA_MANIFEST_H
#define STK_MEDIA_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>
#include <stoker/manifest.h>

#include "media/manifest_format.h"
#include "media/scan.h"
#include "store/file.h"

#define STK_MANIFEST_PATH_BYTES_MAX 4095u /* without the end */

/* ----------------------------------------------------------------------------------------------------------- opened */

struct stoker_manifest {
    const uint8_t *data; /* mapped */
    struct stk_manifest_header header;
    char *path;   /* absolute */
    char *folder; /* of it, with the slash at its end */
    uint64_t bytes;
    int64_t mtime_ns; /* of the manifest itself */
};

/* Checks the bytes of a manifest, all but the packets. For the fuzzer, too. */
stoker_status stk_manifest_check(const uint8_t *data, size_t size, struct stk_manifest_header *out_header,
                                 stoker_error *err);
/* MISMATCH if the file at `path` is not the one with this id. */
stoker_status stk_manifest_open_id(const char *path, uint64_t id, stoker_manifest **out_manifest, stoker_error *err);

/* The record at an index that is in range; its texts. */
void stk_manifest_record_at(const stoker_manifest *manifest, uint64_t index, struct stk_manifest_record *out);
const char *stk_manifest_text(const stoker_manifest *manifest, uint64_t offset); /* "" for 0 */
const uint8_t *stk_manifest_table(const stoker_manifest *manifest, const struct stk_manifest_record *record);

/* The scan of an entry; CORRUPT if its packets are damaged, or its own status if the file cannot be used. On success
 * the caller calls stk_scan_fini(). */
stoker_status stk_manifest_scan(const stoker_manifest *manifest, uint64_t index, struct stk_scan *out_scan,
                                stoker_error *err);

/* Opens the file of an entry, or the part of a shard. As stk_file_open() and stk_file_open_object(); MISMATCH if size
 * or time differ from the entry. */
stoker_status stk_manifest_open_entry(const stoker_manifest *manifest, uint64_t index,
                                      const stoker_object_options *object, struct stk_file *out_file,
                                      stoker_error *err);

/* ------------------------------------------------------------------------------------------------------------ paths */

/* The absolute form of a path, on the heap: the working directory before it if it is relative, no "." parts and double
 * slashes. Addresses stay as they are. IO, LIMIT (longer than a path may be), NO_MEMORY. */
stoker_status stk_manifest_absolute(const char *path, char **out_path, stoker_error *err);
/* The part of an absolute path that a manifest in `folder` (with its slash) keeps. */
const char *stk_manifest_relative(const char *folder, const char *path);
/* Folder of an absolute path, with its slash; on the heap, NULL without memory. */
char *stk_manifest_folder(const char *path);

/* ----------------------------------------------------------------------------------------------------------- values */

/* An entry that is in no manifest yet. Texts and table are borrowed. */
struct stk_manifest_value {
    const char *path, *member, *codec, *error; /* as kept; all but the path may be NULL */
    const uint8_t *table;
    struct stk_manifest_record record; /* without its offsets of texts and table */
};

/* The value of an entry; borrows the manifest. */
void stk_manifest_value_at(const stoker_manifest *manifest, uint64_t index, struct stk_manifest_value *out);

/* ---------------------------------------------------------------------------------------------------------- writing */

/* Gives value i; what it points to stays until the next call. */
typedef stoker_status (*stk_manifest_value_fn)(void *user, uint64_t index, struct stk_manifest_value *out,
                                               stoker_error *err);

/* Writes a manifest of `count` values, each asked for twice, in order. It appears when it is whole. */
stoker_status stk_manifest_write(const char *path, uint64_t count, stk_manifest_value_fn value_fn, void *user,
                                 stoker_error *err);

#endif
