/* SPDX-License-Identifier: Apache-2.0
 *
 * The consumer: connect a rank to its host's DataServer, open loaders, request batches, take them in order.
 *
 *     client (one per process) -> loader (one per dataset being iterated) -> batch (views shared memory)
 *
 * A batch is a set of leaves (plain tensors in memory) and, for Python datasets, a "skeleton": opaque bytes from which
 * the adapter rebuilds the nested structure. Batches outlive the loader and the client: the last stoker_batch_unref()
 * returns the memory, wherever it happens.
 *
 * A forked child may not use a client, loader or batch of its parent: calls give WRONG_STATE and unref does nothing
 * there.
 */
#ifndef STOKER_LOADER_H
#define STOKER_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>
#include <stoker/gpt.h>
#include <stoker/media.h>
#include <stoker/profile.h>
#include <stoker/quarantine.h>
#include <stoker/service.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { STOKER_TENSOR_DIMS_MAX = 8 };

typedef struct stoker_client stoker_client;
typedef struct stoker_source stoker_source;
typedef struct stoker_loader stoker_loader;
typedef struct stoker_batch stoker_batch;

/* ----------------------------------------------------------------------------------------------------------- client */

typedef struct stoker_client_options {
    uint32_t struct_size;
    const char *job_key;  /**< text that is equal in all ranks of one job on this host and in no other job; NULL: this
                               process alone. User id, boot id and network namespace are added to it. At most 4 KiB */
    const char *program;  /**< path of the `stoker` program, started when no DataServer answers; NULL: never start
                               one */
    const char *shm_dir;  /**< directory for shared segments; NULL: anonymous memory */
    uint32_t rank, world_size;             /**< 0 of 1 by default */
    uint32_t local_rank, local_world_size; /**< 0 of 1 by default */
    uint64_t connect_timeout_ns;           /**< 0: 10 s */
    stoker_log_fn log_fn;                  /**< NULL: no records; called on the I/O thread, must not call back into
                                                stoker */
    void *log_user;
    stoker_log_level log_level;
    const char *policy; /**< of a DataServer that is started here (stoker/service.h), which may be another one's; NULL:
                             the environment's, else "deadline" */
} stoker_client_options;

#define STOKER_CLIENT_OPTIONS_INIT { sizeof(stoker_client_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, STOKER_LOG_ERROR, 0 }

/** Find the job's DataServer on this host, or start it, and register this process as a rank.
 *
 * Owns:    options are borrowed. On success *out_client is the caller's, who calls stoker_client_close().
 * Threads: any; one I/O thread is started. The client may be used from many threads.
 * Errors:  UNAVAILABLE, TIMEOUT (naming the address and the time), MISMATCH (another key or version, naming both),
 *          NO_MEMORY, IO.
 */
STOKER_API stoker_status stoker_client_open(const stoker_client_options *options, stoker_client **out_client,
                                            stoker_error *err);

/** Process id of the DataServer.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API int64_t stoker_client_server_pid(const stoker_client *client);

/** State of the DataServer as one JSON object: arena, loaders, workers, counters, who holds the slabs.
 *
 * Owns:    on success *out_json is the caller's; free it with stoker_text_free().
 * Threads: any; waits up to `timeout_ns`.
 * Errors:  TIMEOUT, UNAVAILABLE (the DataServer is gone).
 */
STOKER_API stoker_status stoker_client_status(stoker_client *client, uint64_t timeout_ns, char **out_json,
                                              stoker_error *err);

/** Free text or bytes that this library allocated; NULL is allowed.
 *
 * Owns:    takes `text`.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_text_free(char *text);

/** Take the opaque bytes that a worker template attached when the last stoker_loader_open() of this client failed (a
 * pickled exception).
 *
 * Owns:    *out_detail is the caller's, who frees it with stoker_text_free(); NULL and 0 if there are none.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_client_failure(stoker_client *client, char **out_detail, size_t *out_size);

/** Leave the job: loaders that are still open are closed, the I/O thread ends, batches stay valid.
 *
 * Calls on a loader give WRONG_STATE afterwards; its handle is still freed by stoker_loader_close(). The connection
 * ends when the last batch was dropped, so that its memory is not given away.
 *
 * Owns:    takes `client`; NULL is allowed.
 * Threads: not while another thread uses the client.
 * Errors:  none.
 */
STOKER_API void stoker_client_close(stoker_client *client);

/* ---------------------------------------------------------------------------------------------------------- sources */

/** Where a member of a tar shard lies, as stoker_shard_get_member() tells it. Its path is that of the shard, "::" and
 * its name. All zero: the path is a file of its own. */
typedef struct stoker_path_part {
    uint64_t offset, bytes; /**< of the member's data in the shard */
    int64_t mtime_ns;       /**< of the shard: one that was changed since is a mismatch */
    uint32_t shard_bytes;   /**< length of the shard's path at the start of the path */
    uint32_t reserved;      /**< 0 */
} stoker_path_part;

/** List of media files. Sizes and times are read from the file system when the source is made; nothing is opened.
 * Addresses of objects in storage are looked at when their sample is asked for, so nothing is known of them before.
 * For a video source, a list of one manifest (stoker/manifest.h) stands for its entries that can be used, in their
 * order: sizes, times and packets come from it, and members of tar shards are read in place. */
typedef struct stoker_path_list {
    const char *const *paths;
    size_t count;
    const stoker_path_part *parts; /**< NULL: all are whole files; else `count` entries */
    const stoker_object_options *object; /**< of paths that are addresses (s3://, http://, https://); NULL: defaults */
} stoker_path_list;

/** Make a native video source: sample i is file i, decoded in the form `spec` by workers without Python.
 *
 * Owns:    everything is borrowed and copied. On success *out_source is the caller's.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (form, or a path over 4,095 bytes, naming it), NO_MEMORY. A missing file is no error here:
 *          it fails when its sample is asked for.
 */
STOKER_API stoker_status stoker_source_create_video(const stoker_path_list *list, const stoker_video_spec *spec,
                                                    stoker_source **out_source, stoker_error *err);

/** How to start the template process of a user's own dataset: it loads the dataset once and forks the workers. */
typedef struct stoker_process_spec {
    const char *const *argv; /**< NULL-terminated; the descriptor numbers are appended as two decimal arguments: control
                                  socket, payload file */
    const char *const *envp; /**< NULL-terminated */
    const char *cwd;
    const void *payload;     /**< bytes that the template reads from the payload file (a pickled dataset) */
    size_t payload_size;
    uint64_t count;          /**< number of samples; 0 if unknown */
} stoker_process_spec;

/** Make a source that is served by worker processes in another language (python -m stoker.worker).
 *
 * Owns:    everything is borrowed and copied. On success *out_source is the caller's.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT, NO_MEMORY.
 */
STOKER_API stoker_status stoker_source_create_process(const stoker_process_spec *spec, stoker_source **out_source,
                                                      stoker_error *err);

/** Token data whose items are made without Python. */
typedef struct stoker_token_spec {
    uint32_t struct_size;
    uint32_t dataset_count;
    stoker_gpt_dataset *const *datasets; /**< with one sequence length */
    stoker_blend_index *blend;           /**< which dataset each sample comes from; NULL: there is one dataset */
    const stoker_gpt_form *form;         /**< of the items; `attention_mask` and `documents` say which members they
                                              have */
    uint64_t count;                      /**< number of samples */
} stoker_token_spec;

#define STOKER_TOKEN_SPEC_INIT { sizeof(stoker_token_spec), 0, 0, 0, 0, 0 }

/** Make a native source of token data: a sample is a dict of tensors, dataset_id (int16, of blends), tokens, labels,
 * attention_mask, loss_mask, position_ids, cu_seqlens and max_seqlen, those that its form has.
 *
 * Workers open the same files, when a sample needs them; saved index arrays are loaded from their files, others travel
 * with the source. Samples of stoker_source_materialise() have their members in this order, each on the next multiple
 * of 256 bytes.
 *
 * Owns:    everything is borrowed; the source needs none of it afterwards. On success *out_source is the caller's.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (the form, the number of datasets, different lengths), UNSUPPORTED (data in object
 *          storage), LIMIT, NO_MEMORY, and those of preparing deferred arrays that are in no file.
 */
STOKER_API stoker_status stoker_source_create_tokens(const stoker_token_spec *spec, stoker_source **out_source,
                                                     stoker_error *err);

/** Name of a member of the samples of a source, NULL after the last one, and for sources whose samples are one tensor.
 *
 * Owns:    the result is static text.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API const char *stoker_source_member(const stoker_source *source, size_t index);

/** What is known of one sample before it is made. */
typedef struct stoker_descriptor {
    uint64_t id;
    const char *path;      /**< of a file, else NULL; valid as long as the source */
    uint64_t bytes;        /**< size of the file; 0 if unknown */
    int64_t mtime_ns;      /**< its modification time; 0 if unknown */
    stoker_dtype dtype;    /**< of the sample */
    uint32_t ndim;
    uint64_t shape[STOKER_TENSOR_DIMS_MAX];
    uint64_t sample_bytes; /**< of the sample; 0 if unknown before it is made */
    uint64_t tokens;       /**< that a model makes of the sample; 0 if unknown */
} stoker_descriptor;

/** Number of samples.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API uint64_t stoker_source_count(const stoker_source *source);

/** Describe one sample; never decodes and never opens a file.
 *
 * Owns:    *out_descriptor is filled on success; its path belongs to the source.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (id out of range, naming both figures), UNSUPPORTED (a process source).
 */
STOKER_API stoker_status stoker_source_describe(const stoker_source *source, uint64_t id,
                                                stoker_descriptor *out_descriptor, stoker_error *err);

/** Make one sample in the calling thread.
 *
 * Owns:    writes exactly the descriptor's sample_bytes at `dst` on success, any part of them on failure.
 * Threads: any.
 * Errors:  as stoker_video_read(); MISMATCH if the file's size or time differs from the descriptor (naming both);
 *          UNSUPPORTED (a process source).
 */
STOKER_API stoker_status stoker_source_materialise(const stoker_source *source, uint64_t id, void *dst,
                                                   stoker_error *err);

/** Which sample, and where its randomness comes from (random clips, crops and the like). */
typedef struct stoker_sample {
    uint64_t id;
    uint64_t draw; /**< of stoker_sample_draw(); sources without randomness do not look at it */
} stoker_sample;

/** What the randomness of a sample is a function of, and of nothing else. */
typedef struct stoker_draw_key {
    uint64_t seed, epoch;
    uint64_t id;         /**< of the sample in its source */
    uint64_t occurrence; /**< how often it came before in this epoch of this rank */
} stoker_draw_key;

/** A number in which all of `key` is mixed: the draw of a sample. Equal keys give equal draws on every machine.
 *
 * Owns:    `key` is borrowed; NULL gives 0.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API uint64_t stoker_sample_draw(const stoker_draw_key *key);

/** Make one sample in the calling thread, with its randomness from the draw; stoker_source_materialise() is the same
 * with draw 0.
 *
 * Owns:    as stoker_source_materialise(); `sample` is borrowed.
 * Threads: any.
 * Errors:  as stoker_source_materialise().
 */
STOKER_API stoker_status stoker_source_make(const stoker_source *source, const stoker_sample *sample, void *dst,
                                            stoker_error *err);

/** Release a source; loaders that were opened with it keep what they need.
 *
 * Owns:    takes `source`; NULL is allowed.
 * Threads: not while another thread uses it.
 * Errors:  none.
 */
STOKER_API void stoker_source_close(stoker_source *source);

/* ----------------------------------------------------------------------------------------------------------- loader */

typedef enum stoker_on_error {
    STOKER_ON_ERROR_RAISE = 0,  /**< the batch fails */
    STOKER_ON_ERROR_SKIP = 1,   /**< the place of a bad sample is filled with the previous good one of its batch, else
                                     the next; if none is good the batch fails */
    STOKER_ON_ERROR_REPLACE = 2 /**< the place is filled with the next good sample of the dataset (id + 1, id + 2, ...
                                     modulo the count, at most 8 tries), else the batch fails */
} stoker_on_error;

typedef struct stoker_loader_options {
    uint32_t struct_size;
    const char *name;           /**< matches the loaders of the ranks of a job; NULL: by order of creation */
    uint32_t num_workers;       /**< worker processes of this rank; 0: 1 */
    uint32_t batch_samples_max; /**< largest number of samples in one batch; required for native sources */
    uint64_t max_bytes;         /**< of shared memory for all ranks of the host; 0: 2 GiB */
    stoker_on_error on_error;
    uint32_t retries;           /**< tries after the first, of a sample whose data is at fault */
    uint64_t stall_limit_ns;    /**< a worker that is busy longer with one task is killed, the task retried once; 0: 300
                                     s */
    uint32_t any_order;         /**< 1: batches are handed out as they finish */
    /* Of native sources. */
    stoker_isolation isolation;
    uint64_t worker_max_bytes;  /**< of private memory of a worker; a sample that needs more is bad; 0: no limit */
    uint64_t sample_timeout_ns; /**< of CPU time for one sample; one that takes more is bad, and its worker is replaced;
                                     0: 120 s; UINT64_MAX: no limit */
    const char *quarantine;     /**< path of a list of bad files (stoker/quarantine.h), made if it does not exist; what
                                     is on it when the first loader with it opens on this host is passed over, and what
                                     fails is added; NULL: none */
    /* Of all sources. */
    const stoker_cost_row *profile; /**< measured samples that the cost model starts from (stoker/profile.h) */
    size_t profile_count;           /**< at most STOKER_COST_ROWS_MAX */
} stoker_loader_options;

#define STOKER_LOADER_OPTIONS_INIT                                                                                     \
    { sizeof(stoker_loader_options), 0, 0, 0, 0, STOKER_ON_ERROR_RAISE, 0, 0, 0, STOKER_ISOLATION_AUTO, 0, 0, 0, 0, \
      0 }

/** Register a source for one rank.
 *
 * Reserves memory for two of the largest batches.
 *
 * Owns:    borrows everything; on success *out_loader is the caller's.
 * Threads: any. A loader is used by one thread at a time.
 * Errors:  INVALID_ARGUMENT, LIMIT (the reserves exceed max_bytes, naming both figures), NO_MEMORY (the machine or its
 *          cgroup has too little, naming needed and available), UNAVAILABLE, or what the template of a process source
 *          reported (see stoker_client_failure()).
 */
STOKER_API stoker_status stoker_loader_open(stoker_client *client, const stoker_source *source,
                                            const stoker_loader_options *options, stoker_loader **out_loader,
                                            stoker_error *err);

/** What the quarantine list of this loader leaves out: part of what fixes its results, so of a saved state.
 *
 * Owns:    the outputs are filled; *out_digest is the empty text without a list.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_loader_quarantine(const stoker_loader *loader, char out_digest[STOKER_DIGEST_HEX_BYTES],
                                         uint64_t *out_count);

/** Begin an iteration: outstanding requests of the one before are cancelled and their results dropped.
 *
 * Owns:    nothing.
 * Threads: the loader's thread.
 * Errors:  UNAVAILABLE, WRONG_STATE (forked child).
 */
STOKER_API stoker_status stoker_loader_begin(stoker_loader *loader, stoker_error *err);

/** One batch to make: sample ids for native sources, any bytes for process sources (never both). */
typedef struct stoker_request {
    const uint64_t *ids;
    size_t id_count;
    const void *payload; /**< 1 byte to 64 MiB less 4 KiB */
    size_t payload_size;
    const uint64_t *draws; /**< one for each id (stoker_sample_draw()); NULL: 0 for all */
    uint32_t samples;      /**< of a payload, at most 65,536; 0: unknown */
    uint16_t part;         /**< of a payload that is not the whole batch: 0, 1, ... parts - 1, in this order */
    uint16_t parts;        /**< requests that make up the batch, wanted at one time; 0 or 1: it is the whole batch */
    uint64_t estimate_ns;  /**< what making all of them costs one CPU, if the caller knows; 0: it is learned alone */
} stoker_request;

/** Ask for a batch; never waits for it.
 *
 * Owns:    the request is borrowed and copied.
 * Threads: the loader's thread.
 * Errors:  INVALID_ARGUMENT (id out of range, too many ids, payload too large, a part out of turn or with any_order),
 *          UNAVAILABLE, NO_MEMORY, WRONG_STATE (before stoker_loader_begin()), LIMIT (16,384 requests are outstanding).
 */
STOKER_API stoker_status stoker_loader_request(stoker_loader *loader, const stoker_request *request, stoker_error *err);

/** Take the next batch, in the order of the requests (or as they finish, with any_order).
 *
 * STOKER_AGAIN: not ready within `timeout_ns`; call again. STOKER_END: nothing is outstanding. A failed batch gives its
 * error once; the next call goes on with the batch after it. The time between calls is reported as the rank's window;
 * the calls that take the parts of one batch count as one. A call with `timeout_ns` 0 only looks: where it finds
 * nothing, the rank does not wait.
 *
 * Owns:    on STOKER_OK *out_batch holds one reference that is the caller's.
 * Threads: the loader's thread.
 * Errors:  what befell the batch (CORRUPT, NOT_FOUND, MISMATCH, IO, TIMEOUT, LIMIT, ...); UNAVAILABLE if the DataServer
 *          is gone, naming it.
 */
STOKER_API stoker_status stoker_loader_next(stoker_loader *loader, uint64_t timeout_ns, stoker_batch **out_batch,
                                            stoker_error *err);

/** Opaque bytes that a worker attached to the last failure of this loader (a pickled exception).
 *
 * Owns:    *out_detail is borrowed until the next call on the loader; NULL and 0 if there are none.
 * Threads: the loader's thread.
 * Errors:  none.
 */
STOKER_API void stoker_loader_failure(const stoker_loader *loader, const void **out_detail, size_t *out_size);

/** Counters of a loader since it was opened. Durations in nanoseconds. */
typedef struct stoker_loader_stats {
    uint64_t batches;            /**< handed out */
    uint64_t failures;           /**< raised */
    uint64_t samples_skipped;    /**< skipped or replaced by policy */
    uint64_t copies;             /**< batches handed out as private copies because the user keeps too many */
    uint64_t tasks_retried;      /**< after the death or stall of a worker, or by `retries` */
    uint64_t last_wait_ns;       /**< time inside the last successful sequence of stoker_loader_next() calls */
    uint64_t last_ready_ns;      /**< batch-ready latency of the last batch: request to ready */
    uint64_t bytes_held;         /**< of slabs that views of this process keep */
} stoker_loader_stats;

/** Read the counters.
 *
 * Owns:    *out_stats is filled.
 * Threads: the loader's thread.
 * Errors:  none.
 */
STOKER_API void stoker_loader_read_stats(const stoker_loader *loader, stoker_loader_stats *out_stats);

/** Close a loader: outstanding requests are cancelled, its workers end, batches stay valid.
 *
 * Owns:    takes `loader`; NULL is allowed.
 * Threads: the loader's thread, also while another one closes the client.
 * Errors:  none.
 */
STOKER_API void stoker_loader_close(stoker_loader *loader);

/* ---------------------------------------------------------------------------------------------------------- batches */

typedef struct stoker_leaf {
    stoker_dtype dtype;
    uint32_t ndim;
    uint64_t shape[STOKER_TENSOR_DIMS_MAX]; /**< C-contiguous */
    void *data;                             /**< writable, 256-byte aligned */
    size_t size;                            /**< bytes */
} stoker_leaf;

typedef struct stoker_batch_info {
    uint64_t sequence;     /**< of its request within the iteration, from 0 */
    size_t leaf_count;
    const void *skeleton;  /**< valid as long as the batch; NULL for native sources */
    size_t skeleton_size;
    size_t bytes;          /**< of the slab that it keeps; 0 if it is a private copy */
} stoker_batch_info;

/** Facts about a batch.
 *
 * Owns:    *out_info is filled; its pointers live as long as the batch.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_batch_read_info(const stoker_batch *batch, stoker_batch_info *out_info);

/** One leaf of a batch.
 *
 * Owns:    *out_leaf is filled; its data lives as long as the batch.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (no such leaf).
 */
STOKER_API stoker_status stoker_batch_leaf(const stoker_batch *batch, size_t leaf_index, stoker_leaf *out_leaf,
                                           stoker_error *err);

/** Share a batch: each reference is dropped by one stoker_batch_unref().
 *
 * Owns:    the new reference is the caller's.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_batch_ref(stoker_batch *batch);

/** Drop a reference; the last one returns the slab. Never blocks, allocates nothing, safe at exit and after close.
 *
 * Owns:    takes one reference; NULL is allowed.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_batch_unref(stoker_batch *batch);

#ifdef __cplusplus
}
#endif

#endif
