/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches and leaves as Python objects; see _core_batch.c.
 */
#ifndef STOKER_PYTHON_CORE_BATCH_H
#define STOKER_PYTHON_CORE_BATCH_H

#include "_core.h"

/* Wraps a batch: takes the reference, even on failure. */
PyObject *core_batch_wrap(stoker_batch *batch);

int core_batch_init(PyObject *module);

#endif
