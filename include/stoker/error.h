/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and the error object of the public API.
 *
 * Every function that can fail returns a stoker_status and takes, last, an optional stoker_error that the caller owns.
 * There is no global or thread-local "last error"; the object may be filled and read on any thread.
 * The error object is untouched on success.
 */
#ifndef STOKER_ERROR_H
#define STOKER_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STOKER_API __attribute__((visibility("default")))
#else
#define STOKER_API
#endif

/** Result of a call: 0 is success, positive is success with a remark, negative is failure. Numbers never change. */
typedef enum stoker_status {
    STOKER_OK = 0,
    STOKER_END = 1,   /**< nothing more will come */
    STOKER_AGAIN = 2, /**< nothing yet: the time limit of the call passed */

    /* The caller must act. */
    STOKER_ERR_INVALID_ARGUMENT = -1,
    STOKER_ERR_WRONG_STATE = -2,
    STOKER_ERR_UNSUPPORTED = -3,
    /* The data is at fault. */
    STOKER_ERR_NOT_FOUND = -10,
    STOKER_ERR_CORRUPT = -11,
    STOKER_ERR_MISMATCH = -12, /**< a file differs from its descriptor, or two sides from each other */
    /* The machine is at fault. */
    STOKER_ERR_IO = -20,
    STOKER_ERR_NO_MEMORY = -21,
    STOKER_ERR_NO_SPACE = -22,
    STOKER_ERR_LIMIT = -23,
    /* The other side of a connection is at fault. */
    STOKER_ERR_UNAVAILABLE = -30,
    STOKER_ERR_TIMEOUT = -31,
    STOKER_ERR_CANCELED = -32,
    STOKER_ERR_PROTOCOL = -33,
    STOKER_ERR_LOST = -34, /**< the process that did the work ended before it was done */
    /* We are at fault. */
    STOKER_ERR_INTERNAL = -40
} stoker_status;

enum {
    STOKER_ERROR_MESSAGE_BYTES = 512,
    STOKER_ERROR_CONTEXT_BYTES = 256
};

/** What went wrong: one sentence (message), and where (context, outermost noun first). */
typedef struct stoker_error {
    stoker_status status;
    int os_error;                             /**< errno, or 0 */
    char message[STOKER_ERROR_MESSAGE_BYTES]; /**< the fact seen, the value, what was expected; UTF-8, terminated */
    char context[STOKER_ERROR_CONTEXT_BYTES]; /**< "rank 1: sample 17: clips/a.mp4"; empty if none */
} stoker_error;

/** Name of a status without prefix, such as "CORRUPT"; "UNKNOWN" for a number that is none.
 *
 * Owns:    the result is static text.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API const char *stoker_status_name(stoker_status status);

#ifdef __cplusplus
}
#endif

#endif
