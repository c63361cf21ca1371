/* SPDX-License-Identifier: Apache-2.0
 *
 * What libraries of decoders print, in a process that is nobody else's: see source.h.
 */
#include "media/ffmpeg.h"
#include "source/source.h"

void stk_source_own_process(void) { stk_av_log_alone(); }
