/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of a round between ranks of one host (tier 2): small payloads are gathered, slabs change their owner. As
 * message.h, of which they are a part. Pure.
 */
#ifndef STK_WIRE_EXCHANGE_H
#define STK_WIRE_EXCHANGE_H

#include <stoker/balance.h>

#include "wire/message.h"

struct stk_message_gather { /* rank -> DataServer */
    uint32_t loader_id, generation;
    uint64_t number;
    struct stk_span ranks; /* u32 each, in the order of the answer; empty: takes part in no more of them */
    struct stk_span data;
};

struct stk_message_gathered { /* DataServer -> rank */
    uint32_t loader_id, generation;
    uint64_t number;
    int32_t status;       /* OK: data is there; else text says why not */
    struct stk_span text; /* empty with OK */
    struct stk_span data; /* of each rank its size, u32, and its bytes; empty without OK */
};

struct stk_message_give { /* GIVE: rank -> DataServer; GIVEN: DataServer -> rank, with the segment's descriptor if this
                              process was never given it */
    uint32_t loader_id, generation; /* of the rank that is at the other end of the connection */
    uint64_t number;
    uint32_t rank; /* GIVE: who gets it; GIVEN: who had it */
    uint32_t tag;
    struct stk_span ready; /* a READY: the region and what lies in it */
};

STK_MESSAGE_PAIR(gather);
STK_MESSAGE_PAIR(gathered);
STK_MESSAGE_PAIR(give);

#endif
