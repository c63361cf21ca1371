/* SPDX-License-Identifier: Apache-2.0
 *
 * Work of decode plans: see decode_work.h.
 */
#include "media/decode_work.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void stk_decode_work_leaves(const struct stk_packet_table *table, const char *codec, uint8_t *leaf)
{
    const bool one_is_kept = strcmp(codec, "h264") == 0;
    const struct stk_packet *packets = table->packets;
    int64_t least = INT64_MAX, latest = INT64_MIN;
    for (size_t i = table->count; i-- > 0;) {
        leaf[i] = packets[i].pts < least;
        if (packets[i].pts < least) least = packets[i].pts;
    }
    size_t run = 0;             /* reordered packets since the last that is presented after all before it */
    bool all_are_leaves = true; /* those of the run */
    for (size_t i = 0; i <= table->count; i++) {
        if (i < table->count && packets[i].pts < latest) {
            run++;
            all_are_leaves = all_are_leaves && leaf[i];
            continue;
        }
        if (one_is_kept && run >= 2 && all_are_leaves) leaf[i - run] = 0;
        run = 0, all_are_leaves = true;
        if (i == table->count) break;
        latest = packets[i].pts;
        leaf[i] = 0; /* whatever comes later may refer to it */
    }
}

stoker_status stk_decode_work_of_plan(const struct stk_decode_plan *plan, const struct stk_packet_table *table,
                                      const struct stk_av_facts *facts, struct stk_decode_work *out, stoker_error *err)
{
    uint8_t *leaf = calloc(2, table->count + 1), *needed = leaf ? leaf + table->count : NULL;
    if (!leaf) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the work of %zu packets", table->count);
    const bool skips = plan->by_time && plan->skips;
    memset(out, 0, sizeof *out);
    if (skips) {
        stk_decode_work_leaves(table, facts->codec, leaf);
        stk_decode_plan_mark(plan, needed);
    }
    for (uint32_t i = 0; i < plan->segment_count; i++)
        for (uint32_t packet = plan->segments[i].first; packet < plan->segments[i].end; packet++) {
            if (skips && leaf[packet] && !needed[packet]) continue;
            out->packets++;
            out->bytes += table->packets[packet].size;
        }
    out->pixels = out->packets * facts->width * facts->height;
    free(leaf);
    return STOKER_OK;
}

/* Rates of containers have at most this many decimals that matter. */
#define RATE_DEN 1000u

static stoker_status choose(const struct stk_scan *scan, const struct stk_form *form, uint64_t draw, uint64_t frames,
                            uint64_t *ordinals, uint32_t *out_count, stoker_error *err)
{
    struct stk_clip clip = {frames, 0, 1};
    if (scan->facts.frame_rate > 0 && scan->facts.frame_rate < 1e6) {
        clip.rate_num = (uint64_t)(scan->facts.frame_rate * RATE_DEN + 0.5);
        clip.rate_den = RATE_DEN;
    }
    return stk_sampling_choose(&form->sampling, &clip, draw, ordinals, out_count, err);
}

stoker_status stk_decode_work_of_scan(struct stk_scan *scan, const struct stk_form *form, uint64_t draw,
                                      uint64_t known_frames, struct stk_decode_work *out, stoker_error *err)
{
    const struct stk_plan_costs costs =
        stk_plan_costs_of(scan->facts.codec, (double)scan->facts.width * scan->facts.height);
    struct stk_shown *shown = calloc(scan->count + 1, sizeof *shown);
    uint64_t *ordinals = calloc(form->frames, sizeof *ordinals);
    void *memory = malloc(stk_decode_plan_room(form->frames));
    struct stk_packet_table table = {.packets = scan->packets, .count = scan->count, .shown = shown};
    struct stk_decode_plan plan;
    uint32_t count = 0;
    stoker_status status = STOKER_OK;
    if (!shown || !ordinals || !memory) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a plan of %zu packets", scan->count);
    } else {
        table.shown_count = stk_plan_shown(scan->packets, scan->count, shown, &table.by_time);
        const bool jumps = table.by_time && !scan->broken && !known_frames;
        const uint64_t frames = known_frames ? known_frames : table.shown_count;
        status = choose(scan, form, draw, frames, ordinals, &count, err);
        if (status == STOKER_OK && jumps) stk_decode_plan_by_time(&plan, &table, &costs, ordinals, count, memory);
        if (status == STOKER_OK && !jumps) stk_decode_plan_in_order(&plan, &table, frames, ordinals, count, memory);
    }
    if (status == STOKER_OK) status = stk_decode_work_of_plan(&plan, &table, &scan->facts, out, err);
    free(memory);
    free(ordinals);
    free(shown);
    return status;
}
