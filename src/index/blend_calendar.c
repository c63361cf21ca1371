/* SPDX-License-Identifier: Apache-2.0
 *
 * Blends of many entries without looking at all of them for each position.
 *
 * The error of an entry, weight * x - taken as computed, never falls while x rises, because multiplication and
 * subtraction round monotonously. So an entry whose error is below a threshold at step w - 1 was so at all steps
 * before, and may sleep until w. Sleepers lie in a calendar: lists of entries that wake in the same batch of steps.
 * If the largest error among the awake reaches the threshold it is the largest of all, and what ties with it is awake
 * too. If it does not, all entries are looked at, and the threshold is lowered. Which threshold is used changes the
 * work, not the result: it follows the largest errors from below, at a distance that grows when it was too small.
 *
 * Rejected: a heap by time (the order among the awake changes as their errors rise at different speeds), and a look
 * at everything in vectors (at 1,000 entries it is a few times faster than the plain rule, this is 30 times).
 */
#include <string.h>

#include "base/assert.h"
#include "index/blend_internal.h"

/* ----------------------------------------------------------------------------------------------------------- slots */

static void put(struct stk_blend *blend, uint32_t slot, uint32_t number)
{
    blend->slot_weight[slot] = blend->entry[number].weight;
    blend->slot_taken[slot] = blend->entry[number].taken;
    blend->slot_entry[slot] = (uint16_t)number;
}

static void wake_up(struct stk_blend *blend, uint32_t number)
{
    put(blend, blend->freed > 0 ? blend->free_slot[--blend->freed] : blend->awake++, number);
}

static void clear_last(struct stk_blend *blend)
{
    uint32_t slot = --blend->awake;
    blend->slot_weight[slot] = 0.0;
    blend->slot_taken[slot] = __builtin_inf();
}

/* Moves the last ones into freed slots. */
static void close_gaps(struct stk_blend *blend)
{
    while (blend->freed > 0) {
        uint32_t slot = blend->free_slot[--blend->freed];
        while (blend->awake > 0 && blend->slot_entry[blend->awake - 1] == STK_BLEND_NONE) clear_last(blend);
        if (slot >= blend->awake) continue;
        put(blend, slot, blend->slot_entry[blend->awake - 1]);
        clear_last(blend);
    }
}

/* -------------------------------------------------------------------------------------------------------- calendar */

/* Puts the entry into its list: at most a turn of the ring ahead, where it is filed again. */
static void file(struct stk_blend *blend, struct stk_blend_entry *entry, uint64_t batch)
{
    uint64_t when = entry->wake / STK_BLEND_BATCH, far = batch + blend->buckets - 1;
    uint16_t *head = &blend->head[(when < far ? when : far) & (blend->buckets - 1)];
    entry->next = *head;
    *head = (uint16_t)(entry - blend->entry);
}

/* Lets the entry sleep until it may reach the threshold. False: this is so soon, or so unsure, that it stays awake. */
static bool sleep_on(struct stk_blend *blend, struct stk_blend_entry *entry, uint64_t position)
{
    double when = (entry->taken + blend->threshold) * entry->inverse;
    uint64_t batch = position / STK_BLEND_BATCH;
    when = when > 0.0 ? when : 0.0;
    when = when < STK_BLEND_STEP_MAX ? when : STK_BLEND_STEP_MAX;
    int64_t wake = (int64_t)when;
    if ((uint64_t)wake / STK_BLEND_BATCH <= batch) return false;
    if (!(entry->weight * (double)(wake - 1) - entry->taken < blend->threshold)) return false;
    entry->wake = (uint64_t)wake;
    file(blend, entry, batch);
    return true;
}

/* Those whose batch has come. */
static void wake_batch(struct stk_blend *blend, uint64_t batch)
{
    uint16_t *head = &blend->head[batch & (blend->buckets - 1)];
    uint32_t number = *head;
    *head = STK_BLEND_NONE;
    while (number != STK_BLEND_NONE) {
        struct stk_blend_entry *entry = &blend->entry[number];
        uint32_t next = entry->next;
        if (entry->wake / STK_BLEND_BATCH > batch)
            file(blend, entry, batch);
        else
            wake_up(blend, number);
        number = next;
    }
}

/* Sorts all entries anew into sleeping and awake, as a lower threshold demands. */
static void sort(struct stk_blend *blend, uint64_t position)
{
    blend->freed = 0;
    while (blend->awake > 0) clear_last(blend);
    memset(blend->head, 0xFF, blend->buckets * sizeof *blend->head);
    for (uint32_t e = 0; e < blend->count; e++) {
        struct stk_blend_entry *entry = &blend->entry[e];
        if (entry->taken <= STK_BLEND_STEP_MAX && !sleep_on(blend, entry, position)) wake_up(blend, e);
    }
}

static void try_slot(struct stk_blend *blend, uint32_t slot, uint64_t position)
{
    if (blend->slot_entry[slot] == STK_BLEND_NONE) return;
    struct stk_blend_entry *entry = &blend->entry[blend->slot_entry[slot]];
    if (entry->taken <= STK_BLEND_STEP_MAX && !sleep_on(blend, entry, position)) return;
    blend->slot_entry[slot] = STK_BLEND_NONE;
    blend->free_slot[blend->freed++] = (uint16_t)slot;
}

/* The entry with the largest error of all at x. */
static struct stk_blend_entry *scan(const struct stk_blend *blend, double x, double *out_most)
{
    struct stk_blend_entry *best = blend->entry;
    double most = best->weight * x - best->taken;
    for (struct stk_blend_entry *entry = best + 1; entry < blend->entry + blend->count; entry++) {
        double error = entry->weight * x - entry->taken;
        if (error < most || (error == most && entry->member[entry->at] > best->member[best->at])) continue;
        most = error;
        best = entry;
    }
    *out_most = most;
    return best;
}

/* Width: how far below the lowest of the largest errors of a while the threshold is kept. It grows quickly when an
 * awake entry was missing, which costs a look at all, and shrinks slowly. The while grows from 4 to
 * 128 looks at all. */
static void run_calendar(struct stk_blend *blend, const struct stk_blend_ways *ways, int16_t *out_dataset,
                         int64_t *out_sample)
{
    uint64_t patience = 4 * (uint64_t)blend->count;
    double width = 8.0 / blend->count, most;
    uint64_t spent = 0;
    blend->threshold = 0.0;
    for (uint64_t i = 0; i < blend->size;) {
        uint64_t end = (i / STK_BLEND_BATCH + 1) * STK_BLEND_BATCH, from = i;
        if (end > blend->size) end = blend->size;
        if (blend->awake > 0) i = ways->steps(blend, from, end, out_dataset, out_sample);
        spent += (i - from) * (blend->awake + 8);
        if (i < end) {
            (void)stk_blend_take(scan(blend, stk_blend_x(i), &most), i, out_dataset, out_sample);
            if (most < blend->lowest) blend->lowest = most;
            width *= 1.25;
            blend->threshold = most - 2 * width;
            sort(blend, i++);
            from = i;
        }
        if (i < end) continue;
        for (; from < end; from++) try_slot(blend, blend->picked[from % STK_BLEND_BATCH], end - 1);
        wake_batch(blend, end / STK_BLEND_BATCH);
        if (spent >= patience) {
            spent = 0;
            if (blend->lowest - blend->threshold > 3 * width) {
                blend->threshold = blend->lowest - 2 * width;
                for (uint32_t slot = 0; slot < blend->awake; slot++) try_slot(blend, slot, end);
            }
            blend->lowest = __builtin_inf();
            width *= 0.97;
            if (patience < 128 * (uint64_t)blend->count) patience *= 2;
        }
        close_gaps(blend);
    }
}

void stk_blend_run(struct stk_blend *blend, const struct stk_blend_ways *ways, int16_t *out_dataset,
                   int64_t *out_sample)
{
    blend->awake = blend->freed = 0;
    blend->lowest = __builtin_inf();
    memset(blend->head, 0xFF, blend->buckets * sizeof *blend->head);
    for (uint32_t e = 0; e < blend->count + STK_BLEND_LANES; e++) {
        blend->slot_weight[e] = 0.0;
        blend->slot_taken[e] = __builtin_inf();
    }
    for (uint32_t e = 0; e < blend->count; e++)
        if (blend->entry[e].taken <= STK_BLEND_STEP_MAX) wake_up(blend, e);
    if (blend->count > ways->stay_max) {
        run_calendar(blend, ways, out_dataset, out_sample);
        return;
    }
    blend->threshold = -__builtin_inf();
    uint64_t done = ways->steps(blend, 0, blend->size, out_dataset, out_sample);
    STK_ASSERT(done == blend->size);
}

/* ------------------------------------------------------------------------------------------------- without vectors */

static uint64_t steps(struct stk_blend *blend, uint64_t from, uint64_t end, int16_t *out_dataset, int64_t *out_sample)
{
    for (uint64_t i = from; i < end; i++) {
        double x = stk_blend_x(i), most = blend->slot_weight[0] * x - blend->slot_taken[0];
        uint32_t best = 0;
        for (uint32_t s = 1; s < blend->awake; s++) {
            double error = blend->slot_weight[s] * x - blend->slot_taken[s];
            if (error < most || (error == most && stk_blend_member(blend, blend->slot_entry[s]) >
                                                      stk_blend_member(blend, blend->slot_entry[best])))
                continue;
            most = error;
            best = s;
        }
        if (!(most >= blend->threshold)) return i;
        if (most < blend->lowest) blend->lowest = most;
        struct stk_blend_entry *entry = &blend->entry[blend->slot_entry[best]];
        blend->picked[i % STK_BLEND_BATCH] = (uint16_t)best;
        if (stk_blend_take(entry, i, out_dataset, out_sample)) blend->slot_taken[best] = entry->taken;
    }
    return end;
}

const struct stk_blend_ways stk_blend_scalar = {.steps = steps, .stay_max = 16};
