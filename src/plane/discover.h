/* SPDX-License-Identifier: Apache-2.0
 *
 * Find the one DataServer of a job on this host, or start it (rule B7), without a file: the server's address is an
 * abstract Unix name made from the job's key, and binding that name is the lock. The name vanishes with the last
 * process that has the socket, so nothing is ever left behind (docs/decisions/0070-abstract-name-as-lock.md).
 */
#ifndef STK_PLANE_DISCOVER_H
#define STK_PLANE_DISCOVER_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

#define STK_KEY_BYTES 65u  /* 64 hexadecimal digits and a terminator */
#define STK_NAME_BYTES 40u /* "stoker-" and 32 digits */

/* Key of a job: equal in all its ranks on this host, in no other job. job_key NULL: of this process alone.
 * INVALID_ARGUMENT: a text over STK_TEXT_BYTES_MAX. */
stoker_status stk_discover_key(const char *job_key, char out_key[STK_KEY_BYTES], stoker_error *err);
void stk_discover_name(const char *key, char out_name[STK_NAME_BYTES]);

struct stk_discover {
    const char *key;
    const char *program; /* NULL: never start a server */
    const char *shm_dir; /* NULL: anonymous memory */
    const char *policy;  /* NULL: the environment's, else the default */
    uint64_t deadline_ns;
};

/* Connects; starts the server if nobody has the name. *out_started, set on success and on UNAVAILABLE: this call
 * started one. TIMEOUT names the address; UNAVAILABLE: the server ended before anyone could connect; NOT_FOUND or IO:
 * the program cannot be started. */
stoker_status stk_discover_connect(const struct stk_discover *discover, int *out_fd, bool *out_started,
                                   stoker_error *err);

#endif
