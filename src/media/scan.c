/* SPDX-License-Identifier: Apache-2.0
 *
 * Packet scans as values: see scan.h.
 */
#include "media/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "media/ffmpeg_internal.h"

/* Containers whose header says where each packet lies, so that reading a few of them touches little else. Matroska has
 * the places of key frames only: there single packets cost more than the scan (docs/decisions/0158). */
static bool has_index(const AVFormatContext *format) { return strstr(format->iformat->name, "mp4") != NULL; }

stoker_status stk_scan_file(const struct stk_file *file, struct stk_scan *out_scan, stoker_error *err)
{
    struct stk_av *av = NULL;
    STK_TRY(stk_av_open(file, &av, err));
    stoker_status status = stk_av_scan(av, 0, err);
    if (status >= 0 && (av->facts.width == 0 || av->facts.height == 0))
        status = stk_fail(err, STOKER_ERR_CORRUPT, "the video stream does not say how large its pictures are");
    if (status >= 0) {
        *out_scan = (struct stk_scan){
            .facts = av->facts,
            .packets = av->packets,
            .count = av->table.count,
            .frames = av->table.shown_count,
            .duration_s = stk_av_duration(av),
            .last_duration = av->last_duration,
            .broken = av->table.broken,
        };
        av->packets = NULL; /* taken */
    }
    stk_av_close(av);
    return status;
}

void stk_scan_fini(struct stk_scan *scan)
{
    free(scan->packets);
    scan->packets = NULL;
    scan->count = 0;
}

stoker_status stk_av_adopt(struct stk_av *av, const struct stk_scan *scan, stoker_error *err)
{
    const struct stk_av_facts *mine = &av->facts, *theirs = &scan->facts;
    if (av->packets || !has_index(av->format)) return STOKER_AGAIN;
    if (strcmp(mine->codec, theirs->codec) != 0 || mine->width != theirs->width || mine->height != theirs->height ||
        mine->rotation != theirs->rotation || mine->time_base != theirs->time_base)
        return STOKER_AGAIN;
    struct stk_packet *packets = calloc(scan->count + 1, sizeof *packets);
    struct stk_shown *shown = calloc(scan->count + 1, sizeof *shown);
    if (!packets || !shown) {
        free(packets);
        free(shown);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a table of %zu packets", scan->count);
    }
    if (scan->count > 0) memcpy(packets, scan->packets, scan->count * sizeof *packets);
    av->packets = packets;
    av->shown = shown;
    av->last_duration = scan->last_duration;
    av->adopted = true;
    av->table =
        (struct stk_packet_table){.packets = packets, .count = scan->count, .shown = shown, .broken = scan->broken};
    av->table.shown_count = stk_plan_shown(packets, scan->count, shown, &av->table.by_time);
    return STOKER_OK;
}

bool stk_av_is_stale(const struct stk_av *av) { return av->stale; }
