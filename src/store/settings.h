/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of object storage with the text they point to.
 */
#ifndef STK_STORE_SETTINGS_H
#define STK_STORE_SETTINGS_H

#include <stoker/dataset.h>
#include <stoker/error.h>

/* A copy of options (NULL: the defaults) with defaults filled in. UNSUPPORTED: they are of a newer version and say
 * something unknown. INVALID_ARGUMENT: half a pair of keys, or text that cannot stand in a request. */
stoker_status stk_object_settings_copy(const stoker_object_options *options, stoker_object_settings **out_settings,
                                       stoker_error *err);

#endif
