/* SPDX-License-Identifier: Apache-2.0
 *
 * What native sources of files share: the blob that lists the files beside a form, and the promise that a file has not
 * changed since.
 *
 * The blob (little-endian): header of 16 bytes; form, whose size the kind knows; count (8); text size (8); then `count`
 * entries of 24 bytes {offset of the path in the text, size of the file, its modification time}; then the paths,
 * absolute, each ended by a zero byte. Size and time 0 mean that there was no file when the source was made. Everything
 * is checked once, at open; later reads index without checks.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#ifndef STK_SOURCE_FILES_H
#define STK_SOURCE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#include "source/source_internal.h"
#include "store/file.h"

#define STK_FILES_FORM_AT STK_BLOB_HEADER_BYTES
#define STK_FILES_FORM_BYTES 72u /* of most kinds */

/* A checked blob. Borrows it. */
struct stk_files {
    const uint8_t *blob;
    uint64_t count;
    const uint8_t *entries;
    const char *text;
    /* of a list from a manifest (listed.h); NULL: it is from paths */
    const uint8_t *places;
    const char *manifest;
    uint64_t manifest_id;
    /* of lists with addresses (remote.h) */
    bool remote;
    stoker_object_options object; /* its texts lie in the blob */
};

/* Magic and version of a blob, and its form. */
struct stk_files_kind {
    uint32_t magic, version, form_bytes;
};

/* Makes the blob of a list; `form` has kind->form_bytes. Relative paths are made absolute, because workers run
 * elsewhere. INVALID_ARGUMENT names the path, LIMIT, NO_MEMORY, IO. */
stoker_status stk_files_create(const struct stk_files_kind *kind, const uint8_t *form, const stoker_path_list *list,
                               int *out_fd, stoker_error *err);

/* Everything but the form, which the caller checks. CORRUPT names the field and offset. */
stoker_status stk_files_check(const struct stk_files_kind *kind, const uint8_t *blob, size_t size,
                              struct stk_files *out_files, stoker_error *err);
/* A form of a blob was refused: the same message, as damage of the blob. */
stoker_status stk_files_bad_form(stoker_error *err);

/* Does a path need no folder: is it absolute, or an address? */
bool stk_files_is_absolute(const char *path);

/* Id, path, bytes and time of a file into a descriptor that has everything else. */
void stk_files_describe(const struct stk_files *files, uint64_t id, stoker_descriptor *descriptor);

/* Opens the file of a sample, or the part of a shard. MISMATCH: it is not the one that was described. */
stoker_status stk_files_open(const struct stk_files *files, const stoker_descriptor *sample, struct stk_file *out_file,
                             stoker_error *err);

/* MISMATCH if the opened file is not the one that was described. */
stoker_status stk_files_check_facts(const stoker_descriptor *sample, const struct stk_file *file, stoker_error *err);

#endif
