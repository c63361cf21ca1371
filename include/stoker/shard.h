/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar shards of samples (the layout of WebDataset), read at random without unpacking.
 *
 * A shard is a plain tar archive. Members whose names share all before the first dot of their last part ("a/17.jpg",
 * "a/17.json", "a/17.left.png") are one sample: "a/17" is its key, "jpg", "json" and "left.png" are its extensions.
 * Members keep the order of the archive, samples that of their first member.
 *
 * Finding the members takes one walk over the headers. Its result can be kept in a small file, by default beside the
 * shard (SHARD.stkx, docs/reference/manifest.md); a shard that was changed since is walked again.
 */
#ifndef STOKER_SHARD_H
#define STOKER_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoker_shard stoker_shard;

/** What two members of one name mean. */
typedef enum stoker_shard_duplicates {
    STOKER_SHARD_DUPLICATES_ERROR = 0, /**< the shard is CORRUPT, naming both places */
    STOKER_SHARD_DUPLICATES_LAST = 1   /**< the last one counts, as tar unpacks them */
} stoker_shard_duplicates;

/** What happens with the index file. */
typedef enum stoker_shard_index {
    STOKER_SHARD_INDEX_USE = 0,   /**< it is used if it is there and fits; none is written */
    STOKER_SHARD_INDEX_WRITE = 1, /**< and else it is written, where the folder allows it */
    STOKER_SHARD_INDEX_NONE = 2   /**< the shard is walked */
} stoker_shard_index;

typedef struct stoker_shard_options {
    uint32_t struct_size;
    stoker_shard_duplicates duplicates;
    stoker_shard_index index;
    const char *index_path;              /**< NULL: the shard's path and ".stkx"; an address has none unless it is
                                              given here */
    const stoker_object_options *object; /**< of a shard in object storage; NULL: unsigned, all defaults */
} stoker_shard_options;

#define STOKER_SHARD_OPTIONS_INIT { sizeof(stoker_shard_options), STOKER_SHARD_DUPLICATES_ERROR, \
                                    STOKER_SHARD_INDEX_USE, 0, 0 }

/** Open a shard: a path, or an address s3://, http:// or https://.
 *
 * Owns:    `location` and `options` (NULL: defaults) are borrowed. On success *out_shard is the caller's, who calls
 *          stoker_shard_close().
 * Threads: any; the shard never changes and may be used from many threads at once.
 * Errors:  NOT_FOUND, CORRUPT (the archive is cut or damaged, or a name stands twice; with the offset), UNSUPPORTED
 *          (compressed archives, sparse members), INVALID_ARGUMENT, IO, NO_MEMORY, LIMIT; UNAVAILABLE, TIMEOUT (object
 *          storage).
 */
STOKER_API stoker_status stoker_shard_open(const char *location, const stoker_shard_options *options,
                                           stoker_shard **out_shard, stoker_error *err);

/** Close a shard. NULL is allowed.
 *
 * Owns:    takes `shard`.
 * Threads: not while another thread uses it.
 * Errors:  none.
 */
STOKER_API void stoker_shard_close(stoker_shard *shard);

typedef struct stoker_shard_facts {
    uint64_t members, samples;
    uint64_t dropped;   /**< members that a later one of the same name replaced */
    uint64_t bytes;     /**< of the archive */
    int64_t mtime_ns;   /**< of the archive; of an object a number that changes with its version */
    uint32_t from_index; /**< 1: the index file was used, 0: the archive was walked */
    uint32_t written;    /**< 1: the index file was written */
} stoker_shard_facts;

/** Counts and sizes.
 *
 * Owns:    *out_facts is filled.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_shard_get_facts(const stoker_shard *shard, stoker_shard_facts *out_facts);

typedef struct stoker_shard_member {
    const char *name;      /**< ended by a zero byte; valid as long as the shard */
    const char *extension; /**< inside `name`; "" if it has none */
    uint64_t key_size;     /**< bytes of the key at the start of `name` */
    uint64_t offset, size; /**< of the data in the archive */
    uint64_t sample;
} stoker_shard_member;

/** One member, by its position in the archive.
 *
 * Owns:    *out_member is filled on success; its texts belong to the shard.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (index out of range, naming both figures).
 */
STOKER_API stoker_status stoker_shard_get_member(const stoker_shard *shard, uint64_t index,
                                                 stoker_shard_member *out_member, stoker_error *err);

/** Position of the member of a name.
 *
 * Owns:    `name` is borrowed; *out_index is set on success.
 * Threads: any.
 * Errors:  NOT_FOUND, naming it.
 */
STOKER_API stoker_status stoker_shard_find(const stoker_shard *shard, const char *name, uint64_t *out_index,
                                           stoker_error *err);

typedef struct stoker_shard_sample {
    const char *key;         /**< not ended: `key_size` bytes; valid as long as the shard */
    uint64_t key_size;
    const uint32_t *members; /**< their positions, sorted by extension; valid as long as the shard */
    uint64_t member_count;
} stoker_shard_sample;

/** One sample.
 *
 * Owns:    *out_sample is filled on success; what it points to belongs to the shard.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (index out of range, naming both figures).
 */
STOKER_API stoker_status stoker_shard_get_sample(const stoker_shard *shard, uint64_t index,
                                                 stoker_shard_sample *out_sample, stoker_error *err);

/** Read the data of one member.
 *
 * Owns:    exactly the member's size of `out` is written on success, any part of it on failure.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT; CORRUPT (the archive ends before); IO; UNAVAILABLE, TIMEOUT, MISMATCH (object storage).
 */
STOKER_API stoker_status stoker_shard_read(const stoker_shard *shard, uint64_t index, void *out, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
