/* SPDX-License-Identifier: Apache-2.0
 *
 * Write a worker in another language: the two channels that `python -m stoker.worker` speaks.
 *
 * The DataServer starts one *template* per (loader, rank) with a control socket and a payload file. The template loads
 * the dataset once, reports ready, and forks a worker each time it is asked to; each worker gets a socket of its own,
 * over which it receives tasks and returns results in shared memory.
 */
#ifndef STOKER_WORKER_H
#define STOKER_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoker_template_channel stoker_template_channel;
typedef struct stoker_worker_channel stoker_worker_channel;

/** Ask the kernel to kill this process when its parent ends.
 *
 * A template and each forked worker call it first, so that nothing outlives a DataServer or a template that was killed.
 *
 * Owns:    nothing.
 * Threads: the main thread, before others are started.
 * Errors:  UNAVAILABLE (the parent is not `parent_pid`: it has ended already), IO.
 */
STOKER_API stoker_status stoker_worker_die_with_parent(int64_t parent_pid, stoker_error *err);

/** Open the template's side of its control socket.
 *
 * Owns:    takes `socket_fd`, even on failure; on success *out_channel is the caller's.
 * Threads: one thread.
 * Errors:  NO_MEMORY, IO.
 */
STOKER_API stoker_status stoker_template_channel_open(int socket_fd, stoker_template_channel **out_channel,
                                                      stoker_error *err);

/** Report that the dataset is loaded (error_message NULL) or could not be (with `detail`, opaque bytes for the rank).
 *
 * Owns:    everything is borrowed.
 * Threads: the channel's thread.
 * Errors:  IO, UNAVAILABLE.
 */
STOKER_API stoker_status stoker_template_channel_report(stoker_template_channel *channel, const char *error_message,
                                                        const void *detail, size_t detail_size, stoker_error *err);

/** Wait for a request to fork a worker. STOKER_END: the DataServer closed the channel: exit. STOKER_AGAIN: time limit.
 *
 * Owns:    on STOKER_OK *out_worker_fd is the caller's: the forked child opens a worker channel on it, the parent
 *          closes it.
 * Threads: the channel's thread.
 * Errors:  PROTOCOL, IO.
 */
STOKER_API stoker_status stoker_template_channel_next(stoker_template_channel *channel, uint64_t timeout_ns,
                                                      uint32_t *out_worker_id, int *out_worker_fd, stoker_error *err);

/** Tell which process a fork made.
 *
 * Owns:    nothing.
 * Threads: the channel's thread.
 * Errors:  INVALID_ARGUMENT (`pid` is no process id), IO, UNAVAILABLE.
 */
STOKER_API stoker_status stoker_template_channel_forked(stoker_template_channel *channel, uint32_t worker_id,
                                                        int64_t pid, stoker_error *err);

/** Close without telling anyone; a forked child calls it on its copy.
 *
 * Owns:    takes `channel`; NULL is allowed.
 * Threads: the channel's thread.
 * Errors:  none.
 */
STOKER_API void stoker_template_channel_close(stoker_template_channel *channel);

/** Open a worker's side of its socket.
 *
 * Owns:    takes `socket_fd`, even on failure; on success *out_channel is the caller's.
 * Threads: one thread.
 * Errors:  NO_MEMORY, IO.
 */
STOKER_API stoker_status stoker_worker_channel_open(int socket_fd, stoker_worker_channel **out_channel,
                                                    stoker_error *err);

/** A task of a process source: `payload` is what the rank requested. */
typedef struct stoker_worker_task {
    uint64_t item_id;
    uint32_t attempt;     /**< 0 on the first try */
    const void *payload;  /**< borrowed until the next call on the channel */
    size_t payload_size;
    void *slab;           /**< shared memory of the result, or NULL if its size is not known yet */
    size_t slab_size;
} stoker_worker_task;

/** Wait for a task. STOKER_END: the DataServer closed the channel: exit.
 *
 * Owns:    *out_task is filled; its memory belongs to the channel.
 * Threads: the channel's thread.
 * Errors:  PROTOCOL, IO.
 */
STOKER_API stoker_status stoker_worker_channel_next(stoker_worker_channel *channel, stoker_worker_task *out_task,
                                                    stoker_error *err);

/** Replace the task's slab by one of at least `size` bytes; what was written to the old one is not carried over, and
 * the old one stays mapped until the task ends, so that it can be copied from.
 *
 * Owns:    *out_slab belongs to the channel.
 * Threads: the channel's thread.
 * Errors:  LIMIT (more than max_bytes, naming both figures), NO_MEMORY, IO. The task must then be failed.
 */
STOKER_API stoker_status stoker_worker_channel_grow(stoker_worker_channel *channel, size_t size, void **out_slab,
                                                    size_t *out_slab_size, stoker_error *err);

/** What a task produced. Offsets are from the start of the slab; no leaf table is needed for process sources: the
 * skeleton holds it. */
typedef struct stoker_worker_result {
    size_t used;              /**< bytes of the slab that hold the result */
    size_t skeleton_offset;   /**< where in the slab the skeleton lies */
    size_t skeleton_size;
    uint32_t samples_skipped; /**< skipped or replaced by policy */
} stoker_worker_result;

/** Deliver the result of the current task.
 *
 * Owns:    borrows `result`; the slab may not be touched afterwards.
 * Threads: the channel's thread.
 * Errors:  INVALID_ARGUMENT (outside the slab, or too many samples skipped), IO.
 */
STOKER_API stoker_status stoker_worker_channel_done(stoker_worker_channel *channel, const stoker_worker_result *result,
                                                    stoker_error *err);

/** Why a task failed. */
typedef struct stoker_worker_failure {
    stoker_status status; /**< one of the negative ones */
    const char *message;
    const void *detail;   /**< opaque bytes for the rank (a pickled exception), at most 1 MiB */
    size_t detail_size;
} stoker_worker_failure;

/** Fail the current task.
 *
 * Owns:    borrows `failure`.
 * Threads: the channel's thread.
 * Errors:  IO.
 */
STOKER_API stoker_status stoker_worker_channel_fail(stoker_worker_channel *channel,
                                                    const stoker_worker_failure *failure, stoker_error *err);

/** Close the channel and unmap everything.
 *
 * Owns:    takes `channel`; NULL is allowed.
 * Threads: the channel's thread.
 * Errors:  none.
 */
STOKER_API void stoker_worker_channel_close(stoker_worker_channel *channel);

#ifdef __cplusplus
}
#endif

#endif
