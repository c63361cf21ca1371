/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

#define SPAN(text) ((struct stk_span){(text), sizeof(text) - 1})

/* Each message: there and back, cut at each byte (from a block of exactly that size), one byte too long. */
#define CHECK_PAIR(name, valid, same)                                                                                  \
    do {                                                                                                               \
        struct stk_message_##name message = (valid), read;                                                             \
        uint8_t bytes[512] = {0};                                                                                      \
        struct stk_writer writer = {.data = bytes, .size = stk_##name##_size(&message)};                               \
        assert_true(writer.size < sizeof bytes);                                                                       \
        stk_##name##_encode(&writer, &message);                                                                        \
        assert_false(writer.full);                                                                                     \
        assert_int_equal(writer.used, writer.size);                                                                    \
        for (size_t cut = 0; cut <= writer.used + 1; cut++) {                                                          \
            uint8_t *block = malloc(cut + 1);                                                                          \
            assert_non_null(block);                                                                                    \
            memcpy(block + 1, bytes, cut);                                                                             \
            stoker_status status = stk_##name##_decode((struct stk_span){block + 1, cut}, &read, NULL);                \
            assert_int_equal(status, cut == writer.used ? STOKER_OK : STOKER_ERR_PROTOCOL);                            \
            if (status == STOKER_OK) assert_true(same);                                                                \
            free(block);                                                                                               \
        }                                                                                                              \
    } while (0)

static bool equal(struct stk_span a, struct stk_span b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static void test_messages_come_back_as_they_were(void **state)
{
    (void)state;
    CHECK_PAIR(gather, ((struct stk_message_gather){1, 2, 3, SPAN("\1\0\0\0\2\0\0\0"), SPAN("features")}),
               read.number == 3 && equal(read.ranks, message.ranks) && equal(read.data, message.data));
    CHECK_PAIR(gathered, ((struct stk_message_gathered){1, 2, 3, STOKER_OK, SPAN(""), SPAN("all")}),
               read.generation == 2 && equal(read.data, message.data));
    CHECK_PAIR(give, ((struct stk_message_give){1, 2, 3, 4, 5, SPAN("ready")}),
               read.rank == 4 && read.tag == 5 && equal(read.ready, message.ready));
}

static void test_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    struct stk_message_gather gather = {1, 2, 3, SPAN("\1\0\0\0"), SPAN("")}, gather_read;
    struct stk_message_gathered gathered = {1, 2, 3, STOKER_ERR_UNAVAILABLE, SPAN("gone"), SPAN("")}, gathered_read;
    uint8_t bytes[128];
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    stk_gather_encode(&writer, &gather);
    bytes[16] = 3; /* bytes of ranks: no multiple of 4; the length of the data follows one byte earlier */
    stoker_error err = {0};
    assert_int_equal(stk_gather_decode((struct stk_span){bytes, writer.used - 1}, &gather_read, &err),
                     STOKER_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "ranks is 3"));
    writer = (struct stk_writer){.data = bytes, .size = sizeof bytes};
    stk_gathered_encode(&writer, &gathered);
    bytes[writer.used - 4] = 1; /* data beside a failure */
    assert_int_equal(stk_gathered_decode((struct stk_span){bytes, writer.used + 1}, &gathered_read, &err),
                     STOKER_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "beside a failure"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_come_back_as_they_were),
        cmocka_unit_test(test_refuses_what_makes_no_sense),
    };
    return stk_run_tests(tests);
}
