/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the messages between processes. The input is what a socket would give: a frame header and its body. A
 * type that carries no struct (BYE) has an empty body.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "wire/exchange.h"

/* What is accepted has one encoding, of the announced size. */
#define DECODE(name)                                                                                                   \
    static int decode_##name(struct stk_span body)                                                                     \
    {                                                                                                                  \
        struct stk_message_##name message;                                                                             \
        stoker_error err = {0};                                                                                        \
        if (stk_##name##_decode(body, &message, &err) != STOKER_OK) {                                                  \
            STK_FUZZ_CHECK(err.status == STOKER_ERR_PROTOCOL);                                                         \
            STK_FUZZ_CHECK(err.message[0] != 0);                                                                       \
            return 0;                                                                                                  \
        }                                                                                                              \
        STK_FUZZ_CHECK(stk_##name##_size(&message) == body.size);                                                      \
        uint8_t *again = malloc(body.size + 1);                                                                        \
        STK_FUZZ_CHECK(again);                                                                                         \
        struct stk_writer writer = {.data = again, .size = body.size};                                                 \
        stk_##name##_encode(&writer, &message);                                                                        \
        STK_FUZZ_CHECK(!writer.full);                                                                                  \
        STK_FUZZ_CHECK(writer.used == body.size);                                                                      \
        STK_FUZZ_CHECK(memcmp(again, body.data, body.size) == 0);                                                      \
        free(again);                                                                                                   \
        return 1;                                                                                                      \
    }

DECODE(hello)
DECODE(loader_open)
DECODE(loader_ref)
DECODE(request)
DECODE(release)
DECODE(step)
DECODE(welcome)
DECODE(verdict)
DECODE(ready)
DECODE(failed)
DECODE(unmap)
DECODE(notice)
DECODE(status)
DECODE(source)
DECODE(task)
DECODE(need)
DECODE(grant)
DECODE(done)
DECODE(template_report)
DECODE(gather)
DECODE(gathered)
DECODE(give)

static int decode_body(uint16_t type, struct stk_span body)
{
    switch (type) {
    case STK_MESSAGE_HELLO: return decode_hello(body);
    case STK_MESSAGE_LOADER_OPEN: return decode_loader_open(body);
    case STK_MESSAGE_LOADER_BEGIN: return decode_loader_ref(body);
    case STK_MESSAGE_REQUEST: return decode_request(body);
    case STK_MESSAGE_RELEASE: return decode_release(body);
    case STK_MESSAGE_STEP: return decode_step(body);
    case STK_MESSAGE_LOADER_CLOSE: return decode_loader_ref(body);
    case STK_MESSAGE_STATUS_QUERY: return decode_status(body);
    case STK_MESSAGE_GATHER: return decode_gather(body);
    case STK_MESSAGE_GIVE: return decode_give(body);
    case STK_MESSAGE_GATHERED: return decode_gathered(body);
    case STK_MESSAGE_GIVEN: return decode_give(body);
    case STK_MESSAGE_BYE: return body.size == 0;
    case STK_MESSAGE_WELCOME: return decode_welcome(body);
    case STK_MESSAGE_REFUSED: return decode_verdict(body);
    case STK_MESSAGE_LOADER_OPENED: return decode_verdict(body);
    case STK_MESSAGE_LOADER_FAILED: return decode_verdict(body);
    case STK_MESSAGE_READY: return decode_ready(body);
    case STK_MESSAGE_FAILED: return decode_failed(body);
    case STK_MESSAGE_UNMAP: return decode_unmap(body);
    case STK_MESSAGE_NOTICE: return decode_notice(body);
    case STK_MESSAGE_STATUS: return decode_status(body);
    case STK_MESSAGE_SOURCE: return decode_source(body);
    case STK_MESSAGE_SOURCE_DROP: return decode_source(body);
    case STK_MESSAGE_TASK: return decode_task(body);
    case STK_MESSAGE_GRANT: return decode_grant(body);
    case STK_MESSAGE_NEED: return decode_need(body);
    case STK_MESSAGE_DONE: return decode_done(body);
    case STK_MESSAGE_TEMPLATE_REPORT: return decode_template_report(body);
    case STK_MESSAGE_FORK: return decode_template_report(body);
    case STK_MESSAGE_FORKED: return decode_template_report(body);
    default: return 0;
    }
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    if (size < STK_FRAME_HEADER_BYTES) return 0;
    struct stk_frame frame;
    if (stk_frame_decode(data, &frame, NULL) != STOKER_OK) return 0;
    uint8_t again[STK_FRAME_HEADER_BYTES];
    stk_frame_encode(&frame, again);
    STK_FUZZ_CHECK(memcmp(again, data, sizeof again) == 0);
    if (frame.body_size != size - STK_FRAME_HEADER_BYTES) return 0;
    return decode_body(frame.type, (struct stk_span){data + STK_FRAME_HEADER_BYTES, frame.body_size});
}
