/* SPDX-License-Identifier: Apache-2.0
 *
 * Log records of a client. They arrive on the I/O thread, which must never need the interpreter lock: they wait in a
 * ring of plain memory until Python drains it. Where it is full the oldest gives way, and what is lost is counted.
 */
#ifndef STOKER_PYTHON_CORE_LOG_H
#define STOKER_PYTHON_CORE_LOG_H

#include "_core.h"

struct core_log;

struct core_log *core_log_create(void);      /* NULL without memory */
void core_log_destroy(struct core_log *log); /* NULL allowed */

/* A stoker_log_fn; `user` is the ring. */
void core_log_take(void *user, stoker_log_level level, const char *id, const char *text);

/* A list of (level, id, text, number lost before it), or NULL with an exception. */
PyObject *core_log_drain(struct core_log *log);

#endif
