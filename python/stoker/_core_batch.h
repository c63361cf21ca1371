/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches and leaves as Python objects; see _core_batch.c.
 */
#ifndef STOKER_PYTHON_CORE_BATCH_H
#define STOKER_PYTHON_CORE_BATCH_H

#include "_core.h"

/* Wraps a batch: takes the reference, even on failure. */
PyObject *core_batch_wrap(stoker_batch *batch);

/* The handle of a Batch, borrowed; NULL with an exception for another object. */
stoker_batch *core_batch_handle(PyObject *object);

/* The handle of a Loader for one call, which core_loader_leave() ends; NULL with an exception. */
stoker_loader *core_loader_enter(PyObject *object);
void core_loader_leave(PyObject *object);

int core_batch_init(PyObject *module);

#endif
