/* SPDX-License-Identifier: Apache-2.0
 *
 * Media manifests: what one packet scan of each file found, kept in one compact file, so that nothing is probed again.
 *
 * An entry is one file, one member of a tar shard, or one object in storage: its size and time, the facts of
 * stoker_media_info, and its packets (times, sizes, key frames). A file that cannot be used has an entry, too, with its
 * one sentence. Entries stand in the order of the sources, folders sorted; the same files give the same bytes, whatever
 * the number of threads and whatever was kept from an older manifest.
 *
 * Paths below the folder of the manifest are kept relative to it, so that both can move together.
 *
 * The format is docs/reference/manifest.md.
 */
#ifndef STOKER_MANIFEST_H
#define STOKER_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------- reading */

typedef struct stoker_manifest stoker_manifest;

/** Open a manifest. Maps it and checks all offsets and counts; packets are checked when they are asked for.
 *
 * Owns:    `path` is borrowed. On success *out_manifest is the caller's, who calls stoker_manifest_close().
 * Threads: any; a manifest never changes and may be used from many threads at once.
 * Errors:  NOT_FOUND, CORRUPT (no manifest, or a damaged one; names the field and offset), UNSUPPORTED (another
 *          version), IO, NO_MEMORY, LIMIT (no mapping is left).
 */
STOKER_API stoker_status stoker_manifest_open(const char *path, stoker_manifest **out_manifest, stoker_error *err);

/** Close a manifest. NULL is allowed.
 *
 * Owns:    takes `manifest`.
 * Threads: not while another thread uses it.
 * Errors:  none.
 */
STOKER_API void stoker_manifest_close(stoker_manifest *manifest);

typedef struct stoker_manifest_facts {
    uint64_t entries;
    uint64_t bad;          /**< entries with an error */
    uint64_t bytes;        /**< of the manifest */
    uint64_t packet_bytes; /**< of it, for packets */
    uint64_t text_bytes;   /**< of it, for paths and other texts */
    uint64_t id;           /**< equal in manifests of equal content */
} stoker_manifest_facts;

/** Counts and sizes.
 *
 * Owns:    *out_facts is filled.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_manifest_get_facts(const stoker_manifest *manifest, stoker_manifest_facts *out_facts);

enum { STOKER_FRAMES_UNKNOWN = -1 };

typedef struct stoker_manifest_entry {
    stoker_status status; /**< OK, or why the file cannot be used */
    const char *error;    /**< one sentence; NULL if the status is OK */
    const char *path;     /**< as it is kept: relative to the manifest's folder, absolute, or an address */
    const char *member;   /**< name of a member of the tar shard `path`; NULL: the file itself */
    uint64_t bytes;       /**< of the file or member */
    int64_t mtime_ns;     /**< of the file or shard; of an object a number that changes with its version */
    uint64_t offset;      /**< of the member in its shard */
    const char *codec;    /**< FFmpeg's short name; NULL if the file cannot be used, as 0 in all numbers below */
    uint32_t width, height; /**< pixels, after rotation */
    int32_t rotation;       /**< clockwise degrees to apply for display */
    uint64_t frames;        /**< presented frames, by the packets */
    int64_t frames_exact;   /**< frames that came out of a whole decode; STOKER_FRAMES_UNKNOWN: nobody tried */
    double duration_s;
    double frame_rate;     /**< as the container claims it; 0: unknown */
    double time_base;      /**< seconds per unit of a packet's times */
    uint64_t packets;      /**< of the video stream */
    uint64_t key_packets;  /**< where a decode can begin */
    uint64_t packet_bytes; /**< sum of their sizes in the file */
} stoker_manifest_entry;

/** One entry.
 *
 * Owns:    *out_entry is filled on success; its texts belong to the manifest.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (index out of range, naming both figures).
 */
STOKER_API stoker_status stoker_manifest_get_entry(const stoker_manifest *manifest, uint64_t index,
                                                   stoker_manifest_entry *out_entry, stoker_error *err);

/** The path of an entry as it can be opened: absolute, or an address.
 *
 * Owns:    writes up to `size` bytes of text with its end at `out`.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT; LIMIT (it does not fit; 4,096 bytes always do).
 */
STOKER_API stoker_status stoker_manifest_get_path(const stoker_manifest *manifest, uint64_t index, char *out,
                                                  size_t size, stoker_error *err);

#define STOKER_TIME_UNKNOWN INT64_MIN

typedef enum stoker_packet_flags {
    STOKER_PACKET_KEY = 1,   /**< a decode can begin here */
    STOKER_PACKET_HIDDEN = 2 /**< decoded, never presented (edit list) */
} stoker_packet_flags;

typedef struct stoker_packet {
    int64_t pts, dts; /**< in units of time_base, or STOKER_TIME_UNKNOWN */
    uint32_t size;    /**< bytes */
    uint32_t flags;
} stoker_packet;

/** The packets of an entry in decode order.
 *
 * Owns:    writes exactly the entry's `packets` elements at `out` on success, any part of them on failure.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT; CORRUPT (their checksum is wrong, or their bytes make no sense); NO_MEMORY.
 */
STOKER_API stoker_status stoker_manifest_get_packets(const stoker_manifest *manifest, uint64_t index,
                                                     stoker_packet *out, stoker_error *err);

/* ----------------------------------------------------------------------------------------------------------- making */

/** How far a build is. */
typedef struct stoker_manifest_progress {
    uint64_t done, total; /**< files; `total` is known when the sources were listed */
    uint64_t kept;        /**< entries of an older manifest that were taken over */
    uint64_t resumed;     /**< entries of an interrupted build that were taken over */
    uint64_t bad;
} stoker_manifest_progress;

/** Is called from time to time, from any of the threads but never from two at once. A failure stops the build. */
typedef stoker_status (*stoker_manifest_progress_fn)(void *user, const stoker_manifest_progress *progress,
                                                     stoker_error *err);

typedef struct stoker_manifest_build_options {
    uint32_t struct_size;
    uint32_t jobs;  /**< files at once; 0: 1; at most 16 */
    uint32_t exact; /**< 1: decode each file once and count what comes out */
    uint32_t fresh; /**< 1: take nothing over from an older manifest or an interrupted build */
    const stoker_object_options *object; /**< of addresses; NULL: unsigned, all defaults */
    stoker_manifest_progress_fn progress_fn;
    void *progress_user;
} stoker_manifest_build_options;

#define STOKER_MANIFEST_BUILD_OPTIONS_INIT { sizeof(stoker_manifest_build_options), 0, 0, 0, 0, 0, 0 }

/** What a manifest is made of. Each source is a folder (walked in sorted order for files with an ending of a video;
 * names that begin with a dot are left out, links to folders are not followed), a tar shard (".tar": its members with
 * such an ending), a file, or an address s3://, http:// or https:// of a file or a tar shard. */
typedef struct stoker_manifest_sources {
    const char *const *sources;
    size_t count;
} stoker_manifest_sources;

/** Make a manifest, or bring one up to date.
 *
 * Entries of an older manifest at `path` whose size and time are still right are kept. A journal beside it,
 * PATH.stoker-journal, holds what an interrupted build has done; the next one goes on from it. The manifest appears
 * when it is whole.
 *
 * Owns:    everything is borrowed for the call; `out_progress` may be NULL.
 * Threads: any; up to `jobs` threads work. One build of a path at a time, of all processes.
 * Errors:  INVALID_ARGUMENT, NOT_FOUND (a source, naming it), UNAVAILABLE (another build of the path runs), IO,
 *          NO_SPACE, NO_MEMORY, LIMIT, or what `progress_fn` returned. A file that cannot be used is no failure.
 */
STOKER_API stoker_status stoker_manifest_build(const char *path, const stoker_manifest_sources *sources,
                                               const stoker_manifest_build_options *options,
                                               stoker_manifest_progress *out_progress, stoker_error *err);

/** Join manifests in the given order into a new one, which appears when it is whole.
 *
 * Owns:    everything is borrowed for the call.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (a file stands in two of them, naming it), those of stoker_manifest_open(), IO, NO_SPACE.
 */
STOKER_API stoker_status stoker_manifest_merge(const char *path, const stoker_manifest_sources *manifests,
                                               stoker_error *err);

/* -------------------------------------------------------------------------------------------------------- verifying */

typedef enum stoker_manifest_depth {
    STOKER_MANIFEST_FACTS = 0,   /**< sizes and times of the files */
    STOKER_MANIFEST_PACKETS = 1, /**< and a packet scan of each */
    STOKER_MANIFEST_FRAMES = 2   /**< and a whole decode of each */
} stoker_manifest_depth;

/** Is told of each entry that does not fit: `message` is one sentence. */
typedef void (*stoker_manifest_fault_fn)(void *user, uint64_t index, const char *message);

typedef struct stoker_manifest_verify_options {
    uint32_t struct_size;
    uint32_t jobs; /**< files at once; 0: 1; at most 16 */
    stoker_manifest_depth depth;
    const stoker_object_options *object;
    stoker_manifest_fault_fn fault_fn; /**< in the order of the entries, on the calling thread */
    void *fault_user;
} stoker_manifest_verify_options;

#define STOKER_MANIFEST_VERIFY_OPTIONS_INIT \
    { sizeof(stoker_manifest_verify_options), 0, STOKER_MANIFEST_FACTS, 0, 0, 0 }

/** Is a manifest whole, and are the files still those that it describes?
 *
 * Owns:    everything is borrowed for the call; *out_faults is set on success.
 * Threads: any; up to `jobs` threads work.
 * Errors:  CORRUPT (a checksum of the manifest is wrong), IO, NO_MEMORY, INVALID_ARGUMENT. Entries that do not fit are
 *          no failure: they are told and counted.
 */
STOKER_API stoker_status stoker_manifest_verify(const stoker_manifest *manifest,
                                                const stoker_manifest_verify_options *options, uint64_t *out_faults,
                                                stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
