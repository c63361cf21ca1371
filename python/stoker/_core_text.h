/* SPDX-License-Identifier: Apache-2.0
 *
 * Text encoders: see _core_text.c.
 */
#ifndef STOKER_PYTHON_CORE_TEXT_H
#define STOKER_PYTHON_CORE_TEXT_H

#include "_core.h"

int core_text_init(PyObject *module);

#endif
