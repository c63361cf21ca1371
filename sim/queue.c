/* SPDX-License-Identifier: Apache-2.0
 *
 * See queue.h.
 */
#include "sim/queue.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_queue_init(struct sim_queue *queue, struct sim_event *events, uint32_t cap)
{
    *queue = (struct sim_queue){.events = events, .cap = cap};
}

bool sim_queue_put(struct sim_queue *queue, uint64_t at_ns, enum sim_happening type, uint32_t a, uint64_t b)
{
    if (queue->count == queue->cap) return false;
    struct sim_event event = {.at_ns = at_ns, .order = queue->order++, .type = type, .a = a, .b = b};
    uint32_t place = queue->count++;
    while (place > 0 && before(&event, &queue->events[(place - 1) / 2])) {
        queue->events[place] = queue->events[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    queue->events[place] = event;
    return true;
}

bool sim_queue_take(struct sim_queue *queue, struct sim_event *out_event)
{
    if (queue->count == 0) return false;
    *out_event = queue->events[0];
    struct sim_event last = queue->events[--queue->count];
    uint32_t place = 0;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= queue->count) break;
        if (child + 1 < queue->count && before(&queue->events[child + 1], &queue->events[child])) child++;
        if (!before(&queue->events[child], &last)) break;
        queue->events[place] = queue->events[child];
        place = child;
    }
    if (queue->count > 0) queue->events[place] = last;
    return true;
}
