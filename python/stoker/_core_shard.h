/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests and shards: what the module calls to add them.
 */
#ifndef STOKER_PYTHON_CORE_SHARD_H
#define STOKER_PYTHON_CORE_SHARD_H

#include "_core.h"

int core_manifest_init(PyObject *module);
int core_shard_init(PyObject *module); /* called by core_manifest_init() */

#endif
