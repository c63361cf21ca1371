/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges of a loader against a DataServer played by the test.
 */
#include "tests/support/unit.h"

#include <string.h>

#include <stoker/balance.h>

#include "base/limits.h"
#include "tests/support/fake_dataserver.h"
#include "wire/exchange.h"

#define LONG_NS (20 * STK_SECOND_NS)

static stoker_loader *begin(struct fake_server *fake)
{
    fake_start(fake);
    fake_open_client(fake);
    return fake_open_loader(fake, STK_SOURCE_MEDIA);
}

static void end(struct fake_server *fake, stoker_loader *loader)
{
    stoker_loader_close(loader);
    stoker_client_close(fake->client);
    fake_stop(fake);
}

#define FAKE_SEND(fake, type, name, message)                                                                           \
    do {                                                                                                               \
        stoker_status fake_status;                                                                                     \
        STK_CHANNEL_SEND(fake_status, (fake)->channel, type, name, message, NULL, 0, NULL);                            \
        assert_int_equal(fake_status, STOKER_OK);                                                                      \
        assert_int_equal(stk_channel_flush_wait((fake)->channel, UINT64_MAX, NULL), STOKER_OK);                        \
    } while (0)

static void test_gathering_goes_there_and_back(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = begin(&fake);
    const uint32_t ranks[] = {4, 0};
    const stoker_gather gather = {.number = 9, .ranks = ranks, .rank_count = 2, .data = "mine", .size = 4};
    struct stk_message_gather sent;
    const void *data;
    size_t size;
    assert_int_equal(stoker_loader_gather(loader, &gather, NULL), STOKER_OK);
    assert_int_equal(stk_gather_decode(fake_expect(&fake, STK_MESSAGE_GATHER)->body, &sent, NULL), STOKER_OK);
    assert_memory_equal(sent.ranks.data, "\4\0\0\0\0\0\0\0", 8);
    assert_memory_equal(sent.data.data, "mine", 4);
    assert_int_equal(stoker_loader_gathered(loader, 9, 0, &data, &size, NULL), STOKER_AGAIN);
    struct stk_message_gathered other = {sent.loader_id, sent.generation, 8, STOKER_OK, {0}, {"not this", 8}};
    struct stk_message_gathered answer = {sent.loader_id, sent.generation, 9, STOKER_OK, {0}, {"all", 3}};
    FAKE_SEND(&fake, STK_MESSAGE_GATHERED, gathered, &other);
    FAKE_SEND(&fake, STK_MESSAGE_GATHERED, gathered, &answer);
    assert_int_equal(stoker_loader_gathered(loader, 9, LONG_NS, &data, &size, NULL), STOKER_OK);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "all", 3);
    end(&fake, loader);
}

static void test_a_failure_ends_every_wait_of_its_round(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = begin(&fake);
    stoker_error err = {0};
    stoker_batch *batch = NULL;
    uint32_t tag;
    static const char text[] = "rank 3 has left";
    struct stk_message_gathered failed = {1, 1, 5, STOKER_ERR_UNAVAILABLE, {text, sizeof text - 1}, {0}};
    FAKE_SEND(&fake, STK_MESSAGE_GATHERED, gathered, &failed);
    assert_int_equal(stoker_loader_take(loader, 5, LONG_NS, &batch, &tag, &err), STOKER_ERR_UNAVAILABLE);
    assert_string_equal(err.message, text);
    assert_null(batch);
    end(&fake, loader);
}

static void test_only_what_nobody_views_can_be_given(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = begin(&fake);
    stoker_error err = {0};
    stoker_batch *batch = NULL;
    struct stk_message_give sent;
    struct stk_message_ready ready;
    uint64_t sequence = fake_request(&fake, loader, 1);
    uint64_t slab = fake_ready(&fake, (struct fake_answer){1, 1, sequence, 0}, 5, 1);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, NULL), STOKER_OK);
    stoker_batch_ref(batch);
    assert_int_equal(stoker_loader_give(loader, batch, 2, 5, 6, &err), STOKER_ERR_WRONG_STATE);
    assert_non_null(strstr(err.message, "still viewed (1 references)"));
    stoker_batch_unref(batch);
    assert_int_equal(stoker_loader_give(loader, batch, 2, 5, 6, &err), STOKER_OK);
    assert_int_equal(stk_give_decode(fake_expect(&fake, STK_MESSAGE_GIVE)->body, &sent, NULL), STOKER_OK);
    assert_int_equal(sent.rank, 2);
    assert_int_equal(sent.tag, 6);
    assert_int_equal(stk_ready_decode(sent.ready, &ready, NULL), STOKER_OK);
    assert_int_equal(ready.region.slab_id, slab);
    assert_int_equal(stoker_loader_give(loader, batch, 2, 5, 6, &err), STOKER_ERR_WRONG_STATE); /* it is gone */
    stoker_batch_unref(batch); /* and is not released: that would be the next message */
    assert_int_equal(stoker_loader_begin(loader, NULL), STOKER_OK);
    (void)fake_expect(&fake, STK_MESSAGE_LOADER_BEGIN);
    end(&fake, loader);
}

static void test_a_given_batch_is_taken_and_released(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = begin(&fake);
    stoker_batch *batch = NULL;
    struct stk_message_ready ready;
    uint8_t bytes[8192];
    uint32_t tag = 0;
    uint64_t sequence = fake_request(&fake, loader, 1);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, sequence, 0}, 5, 1); /* the segment is mapped by this */
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, NULL), STOKER_OK);
    assert_int_equal(stoker_loader_give(loader, batch, 2, 5, 6, NULL), STOKER_OK);
    struct stk_message_give sent;
    assert_int_equal(stk_give_decode(fake_expect(&fake, STK_MESSAGE_GIVE)->body, &sent, NULL), STOKER_OK);
    assert_int_equal(stk_ready_decode(sent.ready, &ready, NULL), STOKER_OK);
    stoker_batch_unref(batch);
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    stk_ready_encode(&writer, &ready);
    struct stk_message_give given = {1, 1, 5, 2, 40, {bytes, writer.used}}; /* and back it comes */
    FAKE_SEND(&fake, STK_MESSAGE_GIVEN, give, &given);
    assert_int_equal(stoker_loader_take(loader, 5, LONG_NS, &batch, &tag, NULL), STOKER_OK);
    assert_int_equal(tag, 40);
    stoker_leaf leaf;
    assert_int_equal(stoker_batch_leaf(batch, 0, &leaf, NULL), STOKER_OK);
    assert_int_equal(((const uint8_t *)leaf.data)[0], sequence + 1);
    stoker_batch_unref(batch);
    struct stk_message_release release;
    assert_int_equal(stk_release_decode(fake_expect(&fake, STK_MESSAGE_RELEASE)->body, &release, NULL), STOKER_OK);
    assert_int_equal(stk_load_u64(release.slabs.data), ready.region.slab_id);
    end(&fake, loader);
}

static void test_what_nobody_took_goes_back_with_the_iteration(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_loader *loader = begin(&fake);
    stoker_batch *batch = NULL;
    uint8_t bytes[8192];
    struct stk_message_ready ready;
    struct stk_message_give sent;
    uint64_t sequence = fake_request(&fake, loader, 1);
    (void)fake_ready(&fake, (struct fake_answer){1, 1, sequence, 0}, 5, 1);
    assert_int_equal(stoker_loader_next(loader, LONG_NS, &batch, NULL), STOKER_OK);
    assert_int_equal(stoker_loader_give(loader, batch, 2, 5, 6, NULL), STOKER_OK);
    assert_int_equal(stk_give_decode(fake_expect(&fake, STK_MESSAGE_GIVE)->body, &sent, NULL), STOKER_OK);
    assert_int_equal(stk_ready_decode(sent.ready, &ready, NULL), STOKER_OK);
    stoker_batch_unref(batch);
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    stk_ready_encode(&writer, &ready);
    struct stk_message_give given = {1, 1, 5, 2, 40, {bytes, writer.used}};
    FAKE_SEND(&fake, STK_MESSAGE_GIVEN, give, &given);
    assert_int_equal(stoker_loader_begin(loader, NULL), STOKER_OK);
    bool begun;
    struct stk_message_release release; /* whether it came before or after the new iteration */
    struct stk_incoming *in = fake_expect_or_after(&fake, STK_MESSAGE_RELEASE, STK_MESSAGE_LOADER_BEGIN, &begun);
    assert_int_equal(stk_release_decode(in->body, &release, NULL), STOKER_OK);
    assert_int_equal(stk_load_u64(release.slabs.data), ready.region.slab_id);
    if (!begun) (void)fake_expect(&fake, STK_MESSAGE_LOADER_BEGIN);
    end(&fake, loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gathering_goes_there_and_back),
        cmocka_unit_test(test_a_failure_ends_every_wait_of_its_round),
        cmocka_unit_test(test_only_what_nobody_views_can_be_given),
        cmocka_unit_test(test_a_given_batch_is_taken_and_released),
        cmocka_unit_test(test_what_nobody_took_goes_back_with_the_iteration),
    };
    return stk_run_tests(tests);
}
