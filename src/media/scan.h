/* SPDX-License-Identifier: Apache-2.0
 *
 * What one packet scan of a file found: enough to plan a decode without another one.
 */
#ifndef STK_MEDIA_SCAN_H
#define STK_MEDIA_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "media/ffmpeg.h"
#include "store/file.h"

struct stk_scan {
    struct stk_av_facts facts;
    struct stk_packet *packets; /* decode order; owned */
    size_t count;
    uint64_t frames; /* presented */
    double duration_s;
    double last_duration; /* of the last presented packet, in time units; 0: unknown */
    bool broken;          /* as in stk_packet_table */
};

/* Scans a file. As stk_av_open() and stk_av_scan(); a stream that does not say how large its pictures are is
 * CORRUPT. On success the caller calls stk_scan_fini(). */
stoker_status stk_scan_file(const struct stk_file *file, struct stk_scan *out_scan, stoker_error *err);
void stk_scan_fini(struct stk_scan *scan);

/* Gives an opened file the packets of an earlier scan of it instead of a scan. AGAIN, with nothing done: they are not
 * those of this stream, or its container has no index of its own, so that finding single packets would cost more than
 * the scan. Later, a packet that reads differently makes stk_av_fetch() fail, and stk_av_is_stale() tells it. */
stoker_status stk_av_adopt(struct stk_av *av, const struct stk_scan *scan, stoker_error *err);
bool stk_av_is_stale(const struct stk_av *av);

#endif
