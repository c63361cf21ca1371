/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the bytes of decode plans: what is accepted can be used within its bounds, and gives the same bytes
 * when it is written again.
 */
#include <stdlib.h>
#include <string.h>

#include "media/decode_plan.h"
#include "tests/fuzz/fuzz.h"

static void use(const struct stk_decode_plan *plan)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        STK_FUZZ_CHECK(plan->segments[i].first >= end && plan->segments[i].first < plan->segments[i].end);
        end = plan->segments[i].end;
    }
    STK_FUZZ_CHECK(end <= plan->packets);
    if (plan->packets > 1 << 20) return; /* more memory than a fuzzer should take */
    uint8_t *needed = malloc((size_t)plan->packets + 1);
    STK_FUZZ_CHECK(needed != NULL);
    stk_decode_plan_mark(plan, needed);
    for (uint32_t i = 0; plan->by_time && i < plan->kept_count; i++) STK_FUZZ_CHECK(needed[plan->kept[i].packet] == 1);
    free(needed);
    /* It is a plan of no table but its own. */
    const struct stk_packet_table none = {.count = 0};
    stoker_error err = {0};
    if (plan->packets > 0) STK_FUZZ_CHECK(stk_decode_plan_fits(plan, &none, &err) == STOKER_ERR_MISMATCH);
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    size_t room = 0;
    stoker_status status = stk_decode_plan_check(data, size, &room, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(err.message[0] != 0);
        return 0;
    }
    struct stk_decode_plan plan;
    void *memory = malloc(room);
    uint8_t *again = malloc(size);
    STK_FUZZ_CHECK(memory != NULL && again != NULL);
    stk_decode_plan_decode(data, &plan, memory);
    STK_FUZZ_CHECK(stk_decode_plan_size(&plan) == size);
    stk_decode_plan_encode(&plan, again);
    STK_FUZZ_CHECK(memcmp(again, data, size) == 0);
    use(&plan);
    free(again);
    free(memory);
    return 1;
}
