/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of the library that is loaded; everything else of libstoker comes from the modules.
 */
#include <stoker/stoker.h>

const char *stoker_version(void) { return STOKER_VERSION; }
