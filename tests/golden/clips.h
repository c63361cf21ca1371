/* SPDX-License-Identifier: Apache-2.0
 *
 * Clips that a script makes once in the build folder, with the ffmpeg program.
 */
#ifndef STK_TESTS_GOLDEN_CLIPS_H
#define STK_TESTS_GOLDEN_CLIPS_H

#include <stdbool.h>

/* Makes the folder at `place` with the bash script `script`, unless it is there. The script runs in a folder of its own,
 * which gets its name when all clips are there. False: they cannot be made here. */
bool clips_make(const char *place, const char *script);

#endif
