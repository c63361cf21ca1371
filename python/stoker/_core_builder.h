/* SPDX-License-Identifier: Apache-2.0
 *
 * The writing side of token files; see _core_builder.c.
 */
#ifndef STOKER_PYTHON_CORE_BUILDER_H
#define STOKER_PYTHON_CORE_BUILDER_H

#include "_core.h"

int core_builder_init(PyObject *module);

#endif
