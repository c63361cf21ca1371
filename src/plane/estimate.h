/* SPDX-License-Identifier: Apache-2.0
 *
 * The DataServer's cost model (sched/cost): what the samples of a request will cost, for the engine and for the order
 * in which workers take them; and what they did cost. Features are what the source's descriptors tell; of a process
 * source, the number of samples and what the dataset estimates itself.
 *
 * Owned by the DataServer's loop.
 */
#ifndef STK_PLANE_ESTIMATE_H
#define STK_PLANE_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/loader.h>

#include "sched/cost.h"
#include "wire/message.h"

struct stk_estimate;

stoker_status stk_estimate_create(struct stk_estimate **out_estimate, stoker_error *err);
void stk_estimate_destroy(struct stk_estimate *estimate); /* NULL allowed */

/* Kind of the source's samples (enum stk_cost_class). */
uint32_t stk_estimate_class(const struct stoker_source *source);
/* What is known of one sample of a native source before it is made; the id is one of the source's. */
struct stk_cost_features stk_estimate_features(const struct stoker_source *source, uint64_t id);

/* Of whom: ranks of one loader share a model. */
struct stk_estimate_of {
    uint32_t job, class_id;
    const struct stoker_source *source; /* NULL: a process source */
};

/* The same with what the source knows of the packets that will be decoded, and the class of the sample: its codec where
 * the source knows it, else of->class_id. Kept for a while, since it is asked for several times a sample. */
uint32_t stk_estimate_sample(struct stk_estimate *estimate, const struct stk_estimate_of *of, uint64_t id,
                             struct stk_cost_features *out);

/* Predicts the `count` samples of a native request together. With out_order (NULL allowed) also the
 * places by falling cost, the estimate's own until its next call; NULL if all cost the same. */
void stk_estimate_ids(struct stk_estimate *estimate, const struct stk_estimate_of *of, const uint8_t *ids,
                      uint32_t count, struct stk_cost *out_sum, const uint32_t **out_order);
/* Predicts a batch of a process source. */
void stk_estimate_batch(struct stk_estimate *estimate, const struct stk_estimate_of *of,
                        const struct stk_cost_features *features, struct stk_cost *out);
/* Room for `count` numbers, the estimate's own until its next call. */
uint32_t *stk_estimate_scratch(struct stk_estimate *estimate);

void stk_estimate_learn(struct stk_estimate *estimate, const struct stk_estimate_of *of,
                        const struct stk_cost_result *result);
/* For status: results learned from, and the relative error that 95 % of the last ones stayed within, in permille. */
uint32_t stk_estimate_error(const struct stk_estimate *estimate, const struct stk_estimate_of *of,
                            uint32_t *out_learned);

#endif
