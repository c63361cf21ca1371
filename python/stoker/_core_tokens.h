/* SPDX-License-Identifier: Apache-2.0
 *
 * The IndexedFile object, shared with the sources of the extension that build on token files.
 */
#ifndef STOKER_PYTHON_CORE_TOKENS_H
#define STOKER_PYTHON_CORE_TOKENS_H

#include "_core.h"

#include <stoker/dataset.h>

/* The handle of an IndexedFile, or NULL with an exception set. Borrowed. Who keeps it beyond the call takes a reference
 * (stoker_dataset_ref) and keeps the object too: a reader of the caller's (`ranges`) lives only as long as that. */
stoker_dataset *core_tokens_handle(PyObject *indexed_file);

int core_tokens_init(PyObject *module);

#endif
