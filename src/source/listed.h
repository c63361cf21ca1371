/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files that come from a manifest: the part of the blob that says which entry each file is and where members
 * of shards lie, and the packets that the manifest knows. A list of members that no manifest names has the same part
 * with an empty path.
 *
 * The blob has all that is needed to make a sample. The manifest itself only saves work: if it is gone, or is another
 * one by now, samples are the same.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#ifndef STK_SOURCE_LISTED_H
#define STK_SOURCE_LISTED_H

#include <stdbool.h>

#include <stoker/manifest.h>

#include "media/scan.h"
#include "source/files.h"

/* Is there a file that begins as manifests do? */
bool stk_listed_is_manifest(const char *path);

/* As stk_files_create(), of the entries of a manifest that can be used. As stoker_manifest_open(); UNSUPPORTED: an
 * entry is an object in storage, naming it. */
stoker_status stk_listed_create(const struct stk_files_kind *kind, const uint8_t *form, const char *manifest,
                                int *out_fd, stoker_error *err);

/* The same part for a list of paths of which some are members (list->parts), without a manifest: its size and bytes.
 * `folder` is what relative paths are put behind. */
size_t stk_listed_parts_size(const stoker_path_list *list);
void stk_listed_put_parts(uint8_t *part, const stoker_path_list *list, const char *folder);
/* INVALID_ARGUMENT names the first part that does not fit its path. */
stoker_status stk_listed_check_parts(const stoker_path_list *list, stoker_error *err);

/* Checks the part behind the text of a blob whose files are checked, and adds it to *files. */
stoker_status stk_listed_check(struct stk_files *files, const uint8_t *part, size_t size, stoker_error *err);

bool stk_listed_is_member(const struct stk_files *files, uint64_t id);
/* As stk_files_open(), of a member. */
stoker_status stk_listed_open_member(const struct stk_files *files, const stoker_descriptor *sample,
                                     struct stk_file *out_file, stoker_error *err);

/* The manifest of a list, or NULL. */
stoker_manifest *stk_listed_open_manifest(const struct stk_files *files);
/* What the manifest (NULL allowed) knows of a file. True: *out_scan is the caller's, and *known_frames, if it was 0, is
 * the count of a decode that found fewer frames than were promised. */
bool stk_listed_scan(const struct stk_files *files, const stoker_manifest *manifest, uint64_t id,
                     struct stk_scan *out_scan, uint64_t *known_frames);

#endif
