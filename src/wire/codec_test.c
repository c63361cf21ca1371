/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame header byte by byte, and the primitives that every message is made of.
 */
#include "wire/codec_internal.h"

#include <string.h>

#include "tests/support/unit.h"

static void test_frame_layout_is_fixed(void **state)
{
    (void)state;
    static const uint8_t expected[STK_FRAME_HEADER_BYTES] = {
        'S', 'T', 'K', '1', STK_WIRE_VERSION, 0, 0x18, 0, 2, 0, 0, 0, 0x04, 0x03, 0x02, 0x01,
        8,   7,   6,   5,   4, 3, 2,    1, 0, 0, 0, 0, 0,    0,    0,    0,
    };
    const struct stk_frame frame = {
        .type = STK_MESSAGE_READY, .fd_count = 2, .body_size = 0x01020304, .incarnation = UINT64_C(0x0102030405060708)};
    uint8_t bytes[STK_FRAME_HEADER_BYTES];
    stk_frame_encode(&frame, bytes);
    assert_memory_equal(bytes, expected, sizeof bytes);

    struct stk_frame back = {0};
    assert_int_equal(stk_frame_decode(bytes, &back, NULL), STOKER_OK);
    assert_int_equal(back.type, STK_MESSAGE_READY);
    assert_int_equal(back.fd_count, 2);
    assert_int_equal(back.body_size, 0x01020304);
    assert_true(back.incarnation == UINT64_C(0x0102030405060708));
}

static void test_frame_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t byte;
        const char *text;
    } cases[] = {
        {0, 'X', "magic is 0x314b5458"},
        {4, 1, "version is 1, expected "},
        {8, 5, "fd_count is 5, expected at most 4"},
        {9, 1, "fd_count is 256"},
        {10, 1, "reserved is 0x1"},
        {31, 0x80, "reserved is 0x8000000000000000"},
        {15, 4, "body_size is 67108865, expected at most 67108864"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct stk_frame frame = {.type = 1, .body_size = 1};
        uint8_t bytes[STK_FRAME_HEADER_BYTES];
        stk_frame_encode(&frame, bytes);
        bytes[cases[i].at] = cases[i].byte;
        struct stk_frame out = {.type = 77};
        stoker_error err = {0};
        assert_int_equal(stk_frame_decode(bytes, &out, &err), STOKER_ERR_PROTOCOL);
        assert_non_null(strstr(err.message, cases[i].text));
        assert_int_equal(out.type, 77); /* untouched */
    }
}

static void test_largest_body_is_accepted(void **state)
{
    (void)state;
    const struct stk_frame frame = {.type = 1, .fd_count = STK_MESSAGE_FDS_MAX, .body_size = STK_MESSAGE_BYTES_MAX};
    uint8_t bytes[STK_FRAME_HEADER_BYTES];
    stk_frame_encode(&frame, bytes);
    struct stk_frame out = {0};
    assert_int_equal(stk_frame_decode(bytes, &out, NULL), STOKER_OK);
    assert_int_equal(out.body_size, STK_MESSAGE_BYTES_MAX);
}

static void test_integers_are_little_endian_and_may_lie_anywhere(void **state)
{
    (void)state;
    uint8_t bytes[9] = {0};
    stk_store_u64(bytes + 1, UINT64_C(0x1122334455667788));
    assert_int_equal(bytes[1], 0x88);
    assert_int_equal(bytes[8], 0x11);
    assert_true(stk_load_u64(bytes + 1) == UINT64_C(0x1122334455667788));
}

static void test_signed_extremes_survive(void **state)
{
    (void)state;
    uint8_t bytes[24];
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    struct stk_codec codec;
    int64_t low = INT64_MIN, high = INT64_MAX;
    int32_t low32 = INT32_MIN, minus_one = -1;
    stk_codec_write(&codec, "probe", &writer);
    stk_codec_i64(&codec, "low", &low);
    stk_codec_i64(&codec, "high", &high);
    stk_codec_i32(&codec, "low32", &low32);
    stk_codec_i32(&codec, "minus_one", &minus_one);
    assert_false(writer.full);
    assert_int_equal(writer.used, sizeof bytes);

    low = high = 0;
    low32 = minus_one = 0;
    stk_codec_read(&codec, "probe", (struct stk_span){bytes, sizeof bytes}, NULL);
    stk_codec_i64(&codec, "low", &low);
    stk_codec_i64(&codec, "high", &high);
    stk_codec_i32(&codec, "low32", &low32);
    stk_codec_i32(&codec, "minus_one", &minus_one);
    assert_int_equal(stk_codec_end(&codec), STOKER_OK);
    assert_true(low == INT64_MIN);
    assert_true(high == INT64_MAX);
    assert_int_equal(low32, INT32_MIN);
    assert_int_equal(minus_one, -1);
}

static void test_first_refusal_is_kept(void **state)
{
    (void)state;
    stoker_error err = {0};
    struct stk_codec codec;
    uint32_t a = 9, b = 9;
    stk_codec_read(&codec, "probe", (struct stk_span){"\1\0\0\0\2\0", 6}, &err);
    stk_codec_u32(&codec, "a", &a);
    assert_int_equal(a, 1);
    stk_codec_u32(&codec, "b", &b);
    assert_int_equal(b, 0);
    stk_codec_require(&codec, false, "c", 7, "never");
    assert_int_equal(stk_codec_end(&codec), STOKER_ERR_PROTOCOL);
    assert_string_equal(err.message, "probe: b needs 4 bytes, the body has 2 left");
}

static void test_empty_body_may_be_null(void **state)
{
    (void)state;
    struct stk_codec codec;
    uint64_t value = 1;
    stk_codec_read(&codec, "probe", (struct stk_span){NULL, 0}, NULL);
    assert_int_equal(stk_codec_end(&codec), STOKER_OK);
    stk_codec_read(&codec, "probe", (struct stk_span){NULL, 0}, NULL);
    stk_codec_u64(&codec, "value", &value);
    assert_int_equal(stk_codec_end(&codec), STOKER_ERR_PROTOCOL);
    assert_true(value == 0);
}

static void test_writer_that_is_full_stays_so(void **state)
{
    (void)state;
    uint8_t bytes[8] = {0};
    struct stk_writer writer = {.data = bytes, .size = 7};
    struct stk_codec codec;
    uint64_t large = UINT64_MAX;
    uint32_t small = UINT32_MAX;
    stk_codec_write(&codec, "probe", &writer);
    stk_codec_u64(&codec, "large", &large);
    stk_codec_u32(&codec, "small", &small); /* would fit, but a message with a hole is worse than none */
    assert_true(writer.full);
    assert_int_equal(writer.used, 0);
    assert_int_equal(bytes[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_layout_is_fixed),
        cmocka_unit_test(test_frame_refuses_what_it_does_not_know),
        cmocka_unit_test(test_largest_body_is_accepted),
        cmocka_unit_test(test_integers_are_little_endian_and_may_lie_anywhere),
        cmocka_unit_test(test_signed_extremes_survive),
        cmocka_unit_test(test_first_refusal_is_kept),
        cmocka_unit_test(test_empty_body_may_be_null),
        cmocka_unit_test(test_writer_that_is_full_stays_so),
    };
    return stk_run_tests(tests);
}
