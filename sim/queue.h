/* SPDX-License-Identifier: Apache-2.0
 *
 * What is to happen, by time: a binary heap of events in the caller's memory. Events of one instant come in the order
 * in which they were put in, so a run is the same on every machine.
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum sim_happening {
    SIM_HAPPENS_REQUEST,   /* a: rank. Its sender looks whether it may ask for more */
    SIM_HAPPENS_PLACE,     /* a: task. The decision about it is made */
    SIM_HAPPENS_ARRIVE,    /* a: task. Its server has it */
    SIM_HAPPENS_MADE,      /* a: run slot, b: its generation. A core has finished a piece */
    SIM_HAPPENS_MOVED,     /* a: task, b: its attempt. Its bytes are at the rank's host */
    SIM_HAPPENS_READY,     /* a: batch. next() could return it */
    SIM_HAPPENS_WANT,      /* All ranks have ended the step: they call next() */
    SIM_HAPPENS_HEARTBEAT, /* a: server */
    SIM_HAPPENS_TICK,      /* the policy's own */
    SIM_HAPPENS_FAULT,     /* a: number of the fault, b: 0 begins, 1 ends */
    SIM_HAPPENS_TOLD       /* a: slot of a message to the policy */
};

struct sim_event {
    uint64_t at_ns, order;
    enum sim_happening type;
    uint32_t a;
    uint64_t b;
};

struct sim_queue {
    struct sim_event *events;
    uint32_t count, cap;
    uint64_t order;
};

void sim_queue_init(struct sim_queue *queue, struct sim_event *events, uint32_t cap);
/* False if it is full. */
bool sim_queue_put(struct sim_queue *queue, uint64_t at_ns, enum sim_happening type, uint32_t a, uint64_t b);
bool sim_queue_take(struct sim_queue *queue, struct sim_event *out_event);

#endif
