/* SPDX-License-Identifier: Apache-2.0
 *
 * Run a DataServer or a worker inside a program: what `stoker dataserver` and `stoker worker` call.
 *
 * Both functions own the calling process until they return: they open descriptors, start processes and install no
 * signal handler. The program decides about signals and passes a descriptor that becomes readable when it wants the
 * service to stop.
 */
#ifndef STOKER_SERVICE_H
#define STOKER_SERVICE_H

#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Severity of a log record. */
typedef enum stoker_log_level {
    STOKER_LOG_ERROR = 0, /**< someone must act */
    STOKER_LOG_WARN = 1,  /**< degraded, going on */
    STOKER_LOG_INFO = 2,  /**< per object */
    STOKER_LOG_DEBUG = 3  /**< per event */
} stoker_log_level;

/** Receives log records. `id` is a stable short name such as "worker_replaced"; `text` is one line. Both are
 * borrowed. */
typedef void (*stoker_log_fn)(void *user, stoker_log_level level, const char *id, const char *text);

/** Do native workers give up the system calls that a decoder has no need of? Of the loaders of one host the strictest
 * wish counts: on, auto, off. */
typedef enum stoker_isolation {
    STOKER_ISOLATION_AUTO = 0, /**< where it can be had; the status says whether it was */
    STOKER_ISOLATION_ON = 1,   /**< or the loader fails, with the reason */
    STOKER_ISOLATION_OFF = 2
} stoker_isolation;

typedef struct stoker_dataserver_options {
    uint32_t struct_size;
    int listen_fd;             /**< a listening Unix stream socket; the service takes it and closes it */
    int stop_fd;               /**< becomes readable when the service is to stop; -1 if none; borrowed */
    const char *key;           /**< 64 hexadecimal digits that every rank must present */
    const char *program;       /**< path of the `stoker` program, used to start native workers */
    const char *shm_dir;       /**< directory for shared segments; NULL: anonymous memory (memfd) */
    stoker_log_fn log_fn;      /**< NULL: no records */
    void *log_user;
    stoker_log_level log_level;
    uint32_t owns_output;      /**< 1: descriptors 1 and 2 are the service's: closed while no rank is connected, and
                                    those of the rank that comes then */
    const char *policy;         /**< how batches are placed: "deadline" (NULL means it), "cost", "least-request" or
                                     "round-robin" */
    const char *journal;        /**< file that records what the scheduling engine is told, for `stoker-sim replay`; it
                                     must not exist. NULL: none */
    uint64_t journal_bytes_max; /**< at which recording stops; 0: 64 MiB */
} stoker_dataserver_options;

#define STOKER_DATASERVER_OPTIONS_INIT                                                                                 \
    { sizeof(stoker_dataserver_options), -1, -1, 0, 0, 0, 0, 0, STOKER_LOG_ERROR, 0, 0, 0, 0 }

/** Serve ranks until all of them have left, the stop descriptor is readable, or nobody came for 30 s.
 *
 * Owns:    options are borrowed for the call, except `listen_fd`, which is taken even on failure.
 * Threads: call it once per process, on its main thread.
 * Errors:  INVALID_ARGUMENT, IO, NO_MEMORY.
 */
STOKER_API stoker_status stoker_dataserver_run(const stoker_dataserver_options *options, stoker_error *err);

/** Execute decode tasks that arrive on a connected socket until the other side closes it.
 *
 * Owns:    takes `socket_fd`, even on failure.
 * Threads: call it once per process, on its main thread.
 * Errors:  PROTOCOL, IO, NO_MEMORY.
 */
STOKER_API stoker_status stoker_worker_run(int socket_fd, stoker_error *err);

typedef struct stoker_worker_options {
    uint32_t struct_size;
    stoker_isolation isolation;
    uint64_t max_bytes; /**< of private memory of the process; 0: no limit */
    int network;        /**< 1: isolated or not, it may open connections: its files lie in object storage */
} stoker_worker_options;

#define STOKER_WORKER_OPTIONS_INIT { sizeof(stoker_worker_options), STOKER_ISOLATION_OFF, 0, 0 }

/** As stoker_worker_run(), in a process that first gives up what its options say, for good, and tells the other side.
 *
 * Owns:    takes `socket_fd`, even on failure; `options` are borrowed.
 * Threads: call it once per process, on its main thread, before others are started.
 * Errors:  as stoker_worker_run(); UNSUPPORTED (isolation is on and cannot be had), INVALID_ARGUMENT.
 */
STOKER_API stoker_status stoker_worker_serve(int socket_fd, const stoker_worker_options *options, stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
