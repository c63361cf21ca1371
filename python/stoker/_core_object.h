/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of object storage from Python, shared by the sources of the extension that open objects.
 */
#ifndef STOKER_PYTHON_CORE_OBJECT_H
#define STOKER_PYTHON_CORE_OBJECT_H

#include "_core.h"

#include <stoker/dataset.h>

/* Fills *out from a mapping with the names of its members; what is absent or None stays. The texts belong to *out_keep,
 * a new list. -1 with an exception set. */
int core_object_options(PyObject *mapping, stoker_object_options *out, PyObject **out_keep);

int core_object_init(PyObject *module);

#endif
