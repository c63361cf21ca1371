/* SPDX-License-Identifier: Apache-2.0
 *
 * What sources of a manifest mean: folders, shards, files and addresses as one list of items. Nothing is opened but
 * folders and shards.
 */
#ifndef STK_MEDIA_MANIFEST_SOURCES_H
#define STK_MEDIA_MANIFEST_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

struct stk_manifest_item {
    char *path;   /* absolute, or an address */
    char *member; /* NULL: the file itself */
    /* of a member, from the walk over its shard */
    uint64_t offset, bytes;
    int64_t mtime_ns;
    /* of a shard that cannot be read: why; the item stands for all of it */
    char *error;
    stoker_status status;
};

struct stk_manifest_items {
    struct stk_manifest_item *items;
    size_t count, capacity;
};

/* Is it one of the endings by which folders and shards are searched for videos? */
bool stk_manifest_is_video(const char *name, size_t size);

/* Adds what a source means. IO (a folder that cannot be read), NO_MEMORY, LIMIT (too deep, too long). */
stoker_status stk_manifest_add_source(struct stk_manifest_items *items, const char *source,
                                      const stoker_object_options *object, stoker_error *err);
void stk_manifest_items_fini(struct stk_manifest_items *items);

#endif
