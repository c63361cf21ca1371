/* SPDX-License-Identifier: Apache-2.0
 *
 * An open GPT dataset, for the files that share it: gpt.c opens and counts, item.c makes items, source/tokens.c takes
 * it to other processes.
 */
#ifndef STK_TOKENS_GPT_H
#define STK_TOKENS_GPT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <stoker/dataset.h>
#include <stoker/gpt.h>

#include "index/gpt.h"
#include "sys/thread.h"
#include "tokens/cache.h"
#include "tokens/mock.h"


struct stoker_gpt_dataset {
    /* fixed after open */
    stoker_dataset *dataset; /* NULL: made-up sequences */
    struct stk_mock *mock;   /* NULL: a dataset */
    struct stk_gpt_request request;
    stoker_index_cache cache; /* texts are copies; folder NULL: arrays live in memory */
    char *split;
    bool deferred;
    int64_t deferred_count;
    struct stk_mutex *lock;
    /* guarded by lock */
    uint32_t references;
    bool is_ready;
    /* written once under lock before is_ready, then fixed */
    struct stk_npy arrays[STK_GPT_ARRAYS];
    bool built;
};

/* Opens with arrays that the caller has (and keeps for the life of the result): for processes that were given them.
 * They are checked as loaded ones are. */
stoker_status stk_gpt_open_arrays(stoker_dataset *dataset, struct stk_mock *mock, const stoker_gpt_options *options,
                                  const stoker_index_array arrays[STK_GPT_ARRAYS], stoker_gpt_dataset **out_gpt,
                                  stoker_error *err);
/* Takes the mock, only if it succeeds. */
stoker_status stk_gpt_open_mock(struct stk_mock *mock, const stoker_gpt_options *options, stoker_gpt_dataset **out_gpt,
                                stoker_error *err);

/* What an open dataset was opened with: PREFIX.bin, which belongs to it, and the options without what they borrowed. */
void stk_dataset_opened(const stoker_dataset *dataset, const char **out_bin_path, stoker_dataset_options *out_options);

/* Readers of arrays whose bytes need not be aligned. */
static inline int32_t stk_gpt_length(const struct stoker_gpt_dataset *gpt, uint64_t sequence)
{
    int32_t length;
    memcpy(&length, (const uint8_t *)gpt->request.lengths + 4 * sequence, sizeof length);
    return length;
}

#endif
