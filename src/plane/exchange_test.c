/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounds between ranks of a real DataServer: what they tell each other, slabs that change their owner, and nobody that
 * waits for a rank which cannot come.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/plane_session.h"
#include "wire/exchange.h"

enum { RANKS = 2 };

static const uint8_t BOTH[] = {0, 0, 0, 0, 1, 0, 0, 0};

static void begin_as(const char *name, struct plane_server *server, struct plane_rank ranks[RANKS],
                     stoker_source *source)
{
    struct plane_loader options = session_python;
    options.name = name;
    plane_start(server);
    for (uint32_t i = 0; i < RANKS; i++) {
        plane_join(server, &ranks[i], i, RANKS);
        plane_open(&ranks[i], source, &options);
        plane_expect(&ranks[i], STK_MESSAGE_LOADER_OPENED);
        plane_begin(&ranks[i], 1, 1);
    }
}

static void begin(struct plane_server *server, struct plane_rank ranks[RANKS], stoker_source *source)
{
    begin_as("balanced", server, ranks, source);
}

static void gather(struct plane_rank *rank, uint64_t number, const char *text)
{
    struct stk_message_gather message = {1, 1, number, {BOTH, sizeof BOTH}, {text, strlen(text)}};
    PLANE_SEND(rank, STK_MESSAGE_GATHER, gather, &message);
}

static void expect_gathered(struct plane_rank *rank, uint64_t number, const char *data, size_t size)
{
    struct stk_message_gathered message;
    plane_expect(rank, STK_MESSAGE_GATHERED);
    assert_int_equal(stk_gathered_decode(rank->in.body, &message, NULL), STOKER_OK);
    assert_int_equal(message.status, STOKER_OK);
    assert_int_equal(message.number, number);
    assert_int_equal(message.data.size, size);
    assert_memory_equal(message.data.data, data, size);
}

static void expect_failure(struct plane_rank *rank, stoker_status status, const char *part)
{
    struct stk_message_gathered message;
    char text[512];
    plane_expect(rank, STK_MESSAGE_GATHERED);
    assert_int_equal(stk_gathered_decode(rank->in.body, &message, NULL), STOKER_OK);
    assert_int_equal(message.status, status);
    (void)snprintf(text, sizeof text, "%.*s", (int)message.text.size, (const char *)message.text.data);
    if (!strstr(text, part)) fail_msg("'%s' does not say '%s'", text, part);
}

static void give(struct plane_rank *rank, const struct plane_batch *batch, uint32_t to, uint32_t tag)
{
    uint8_t bytes[8192];
    struct stk_writer writer = {.data = bytes, .size = sizeof bytes};
    struct stk_message_ready ready = batch->ready;
    ready.region.fd_sent = 0;
    stk_ready_encode(&writer, &ready);
    struct stk_message_give message = {1, 1, 7, to, tag, {bytes, writer.used}};
    PLANE_SEND(rank, STK_MESSAGE_GIVE, give, &message);
}

static void take_given(struct plane_rank *rank, uint32_t from, uint32_t tag, struct plane_batch *out)
{
    struct stk_message_give given;
    struct stk_message_ready ready;
    plane_expect(rank, STK_MESSAGE_GIVEN);
    assert_int_equal(stk_give_decode(rank->in.body, &given, NULL), STOKER_OK);
    assert_int_equal(given.number, 7);
    assert_int_equal(given.rank, from);
    assert_int_equal(given.tag, tag);
    assert_int_equal(stk_ready_decode(given.ready, &ready, NULL), STOKER_OK);
    plane_map(rank, &ready, out);
}

static void end(struct plane_server *server, struct plane_rank ranks[RANKS], stoker_source *source)
{
    stoker_source_close(source);
    for (uint32_t i = 0; i < RANKS; i++)
        if (ranks[i].channel) plane_leave(&ranks[i]);
    assert_int_equal(plane_wait(server), 0);
}

static void test_all_hear_what_all_said_in_the_order_of_the_ranks(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    for (uint64_t round = 0; round < 3; round++) {
        gather(&ranks[1], round, "second");
        gather(&ranks[0], round, "1st");
        for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], round, "\3\0\0\0001st\6\0\0\0second", 17);
    }
    end(&server, ranks, source);
}

static void test_the_status_names_who_is_awaited(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    assert_null(strstr(plane_status(&ranks[0]), "awaits"));
    gather(&ranks[0], 5, "1st");
    assert_non_null(strstr(plane_status(&ranks[0]), "\"exchange\": {\"number\": 5, \"awaits\": [1]}, "));
    gather(&ranks[1], 5, "second");
    for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], 5, "\3\0\0\0001st\6\0\0\0second", 17);
    assert_null(strstr(plane_status(&ranks[0]), "awaits"));
    end(&server, ranks, source);
}

/* C2: the slab that comes is the one that went, in its segment at its place, and is released by its new rank. */
static void test_c2_a_given_slab_changes_its_owner_only(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    struct plane_batch batch, given, back;
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    plane_request(&ranks[0], 1, 1, 0, "fill 300000 9");
    plane_take(&ranks[0], 0, &batch);
    give(&ranks[0], &batch, 1, 41);
    take_given(&ranks[1], 0, 41, &given);
    assert_int_equal(given.ready.region.slab_id, batch.ready.region.slab_id);
    assert_int_equal(given.ready.region.segment_id, batch.ready.region.segment_id);
    assert_int_equal(given.ready.region.offset, batch.ready.region.offset);
    session_expect_filled(&given, 300000, 9);
    batch.data[5] = 77; /* one memory: what is written there is read here */
    assert_int_equal(given.data[5], 77);
    give(&ranks[1], &given, 0, 42);
    take_given(&ranks[0], 1, 42, &back);
    assert_int_equal(plane_number(strstr(plane_status(&ranks[0]), "\"segments\""), "slabs"), 1);
    plane_release(&ranks[0], &back);
    stk_shm_mapping_unref(batch.mapping); /* those that gave keep nothing but this */
    stk_shm_mapping_unref(given.mapping);
    plane_wait_number(&ranks[0], "used_bytes", 0);
    end(&server, ranks, source);
}

static void test_a_rank_gives_only_what_it_holds(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    struct plane_batch batch, given;
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    plane_request(&ranks[0], 1, 1, 0, "fill 300000 9");
    plane_take(&ranks[0], 0, &batch);
    give(&ranks[0], &batch, 1, 0);
    take_given(&ranks[1], 0, 0, &given);
    give(&ranks[0], &batch, 1, 0); /* it is the other's */
    plane_expect_closed(&ranks[0]);
    plane_close(&ranks[0]);
    ranks[0].channel = NULL;
    stk_shm_mapping_unref(batch.mapping);
    session_expect_filled(&given, 300000, 9); /* the giver's loader is closed: its segment lives as long as the view */
    plane_release(&ranks[1], &given);
    plane_wait_number(&ranks[1], "quarantined_bytes", 0);
    end(&server, ranks, source);
}

static void test_what_is_given_to_nobody_is_free(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    plane_request(&ranks[0], 1, 1, 0, "fill 300000 9");
    plane_take(&ranks[0], 0, &batch);
    give(&ranks[0], &batch, 5, 0);
    stk_shm_mapping_unref(batch.mapping);
    plane_wait_number(&ranks[0], "used_bytes", 0);
    end(&server, ranks, source);
}

static void test_death_of_a_rank_ends_the_round_of_the_others(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    gather(&ranks[0], 0, "waits");
    plane_close(&ranks[1]);
    ranks[1].channel = NULL;
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has left");
    gather(&ranks[0], 1, "comes later");
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has left");
    end(&server, ranks, source);
}

/* After the features were gathered, slabs are awaited: the other must be told then too. */
static void test_death_in_the_middle_of_an_exchange_is_told(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    for (uint32_t i = 0; i < RANKS; i++) gather(&ranks[i], 0, "");
    for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], 0, "\0\0\0\0\0\0\0\0", 8);
    plane_close(&ranks[1]);
    ranks[1].channel = NULL;
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has left in the middle");
    end(&server, ranks, source);
}

/* The same, if it only ends its iteration: an error of its own, or Ctrl-C, and its process lives on. */
static void test_an_end_in_the_middle_of_an_exchange_is_told(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    for (uint32_t i = 0; i < RANKS; i++) gather(&ranks[i], 0, "");
    for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], 0, "\0\0\0\0\0\0\0\0", 8);
    struct stk_message_gather none = {1, 1, 0, {0}, {0}};
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &none);
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration in the middle");
    end(&server, ranks, source);
}

static void test_a_rank_that_has_ended_its_iteration_is_not_awaited(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    gather(&ranks[0], 0, "waits");
    struct stk_message_gather none = {1, 1, 0, {0}, {0}};
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &none);
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration");
    gather(&ranks[0], 1, "comes later");
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration");
    end(&server, ranks, source);
}

/* The upper half of a number is the iteration. */
static void test_a_rank_that_has_ended_an_earlier_iteration_is_awaited(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    uint64_t second = UINT64_C(2) << 32;
    struct stk_message_gather none = {1, 1, second - 1, {0}, {0}};
    gather(&ranks[0], second, "");
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &none);
    gather(&ranks[1], second, "");
    for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], second, "\0\0\0\0\0\0\0\0", 8);
    none.number = second;
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &none);
    gather(&ranks[0], second + 2, "");
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration");
    end(&server, ranks, source);
}

/* Ranks prepare a round while the one before it is taken: one may have left between its word and what it would get. */
static void test_what_is_given_to_a_rank_that_has_left_the_round_is_free(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    for (uint32_t i = 0; i < RANKS; i++) gather(&ranks[i], 7, "");
    for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], 7, "\0\0\0\0\0\0\0\0", 8);
    struct stk_message_gather none = {1, 1, 8, {0}, {0}};
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &none);
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration in the middle");
    for (uint64_t i = 0; i < 2; i++) {
        plane_request(&ranks[0], 1, 1, i, "fill 300000 9");
        plane_take(&ranks[0], i, &batch);
        give(&ranks[0], &batch, 1, 0);
        stk_shm_mapping_unref(batch.mapping);
        plane_wait_number(&ranks[0], "used_bytes", 0);
        gather(&ranks[1], UINT64_C(1) << 32, "waits in the next iteration");
    }
    end(&server, ranks, source);
}

/* It need not have heard of the end: it may have been between two rounds then. */
static void test_a_rank_that_is_in_a_later_iteration_is_not_awaited(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    uint64_t second = UINT64_C(2) << 32;
    gather(&ranks[1], second, "");
    gather(&ranks[0], second - 1, "");
    expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration");
    gather(&ranks[0], second, "");
    for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], second, "\0\0\0\0\0\0\0\0", 8);
    end(&server, ranks, source);
}

/* Rank 0 waits for a rank that has left, begun again and said nothing there yet, or says its first word only then. */
static void test_a_rank_that_has_begun_a_later_iteration_is_not_awaited(void **state)
{
    (void)state;
    uint64_t second = UINT64_C(1) << 32;
    for (int left = 0; left < 2; left++) {
        struct plane_server server;
        struct plane_rank ranks[RANKS];
        stoker_source *source = plane_process_source();
        begin(&server, ranks, source);
        struct stk_message_gather none = {1, 1, 0, {0}, {0}};
        struct stk_message_gather later = {1, 2, second, {BOTH, sizeof BOTH}, {"", 0}};
        if (left) PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &none);
        plane_begin(&ranks[1], 1, 2);
        (void)plane_status(&ranks[1]); /* that has come */
        gather(&ranks[0], 2, "");
        if (!left) {
            (void)plane_status(&ranks[0]);
            PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &later);
        }
        expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has ended its iteration");
        end(&server, ranks, source);
    }
}

/* Rank 0 goes on alone with a loader that rank 1 has closed; with a later one of both, rank 1 is awaited. */
static void test_a_rank_that_has_closed_its_loader_is_not_awaited(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        struct plane_server server;
        struct plane_rank ranks[RANKS];
        struct plane_loader options = session_python;
        stoker_source *source = plane_process_source();
        options.name = named ? "balanced" : NULL;
        begin_as(options.name, &server, ranks, source);
        for (uint32_t i = 0; i < RANKS; i++) gather(&ranks[i], 0, "");
        for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], 0, "\0\0\0\0\0\0\0\0", 8);
        struct stk_message_loader_ref closed = {.loader_id = 1};
        PLANE_SEND(&ranks[1], STK_MESSAGE_LOADER_CLOSE, loader_ref, &closed);
        expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has left in the middle");
        gather(&ranks[0], 2, "");
        expect_failure(&ranks[0], STOKER_ERR_UNAVAILABLE, "rank 1 has closed its loader");
        PLANE_SEND(&ranks[0], STK_MESSAGE_LOADER_CLOSE, loader_ref, &closed);
        options.loader_id = 2;
        for (uint32_t i = RANKS; i-- > 0;) {
            plane_open(&ranks[i], source, &options);
            plane_expect(&ranks[i], STK_MESSAGE_LOADER_OPENED);
            plane_begin(&ranks[i], 2, 1);
        }
        struct stk_message_gather again = {2, 1, 0, {BOTH, sizeof BOTH}, {"", 0}};
        for (uint32_t i = 0; i < RANKS; i++) PLANE_SEND(&ranks[i], STK_MESSAGE_GATHER, gather, &again);
        for (uint32_t i = 0; i < RANKS; i++) expect_gathered(&ranks[i], 0, "\0\0\0\0\0\0\0\0", 8);
        end(&server, ranks, source);
    }
}

static void test_ranks_at_different_rounds_are_told(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    gather(&ranks[0], 4, "");
    gather(&ranks[1], 6, "");
    for (uint32_t i = 0; i < RANKS; i++) expect_failure(&ranks[i], STOKER_ERR_WRONG_STATE, "not at one round");
    end(&server, ranks, source);
}

static void test_lists_that_differ_are_told(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank ranks[RANKS];
    stoker_source *source = plane_process_source();
    begin(&server, ranks, source);
    static const uint8_t turned[] = {1, 0, 0, 0, 0, 0, 0, 0}, three[] = {0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0};
    struct stk_message_gather message = {1, 1, 4, {turned, sizeof turned}, {"", 0}};
    gather(&ranks[0], 4, "");
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &message);
    for (uint32_t i = 0; i < RANKS; i++)
        expect_failure(&ranks[i], STOKER_ERR_WRONG_STATE, " at place 0, that of rank ");
    message = (struct stk_message_gather){1, 1, 6, {three, sizeof three}, {"", 0}};
    gather(&ranks[0], 6, "");
    PLANE_SEND(&ranks[1], STK_MESSAGE_GATHER, gather, &message);
    for (uint32_t i = 0; i < RANKS; i++) expect_failure(&ranks[i], STOKER_ERR_WRONG_STATE, " ranks, that of rank ");
    end(&server, ranks, source);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_hear_what_all_said_in_the_order_of_the_ranks),
        cmocka_unit_test(test_c2_a_given_slab_changes_its_owner_only),
        cmocka_unit_test(test_a_rank_gives_only_what_it_holds),
        cmocka_unit_test(test_what_is_given_to_nobody_is_free),
        cmocka_unit_test(test_death_of_a_rank_ends_the_round_of_the_others),
        cmocka_unit_test(test_the_status_names_who_is_awaited),
        cmocka_unit_test(test_death_in_the_middle_of_an_exchange_is_told),
        cmocka_unit_test(test_an_end_in_the_middle_of_an_exchange_is_told),
        cmocka_unit_test(test_a_rank_that_has_ended_its_iteration_is_not_awaited),
        cmocka_unit_test(test_a_rank_that_has_ended_an_earlier_iteration_is_awaited),
        cmocka_unit_test(test_what_is_given_to_a_rank_that_has_left_the_round_is_free),
        cmocka_unit_test(test_a_rank_that_is_in_a_later_iteration_is_not_awaited),
        cmocka_unit_test(test_a_rank_that_has_begun_a_later_iteration_is_not_awaited),
        cmocka_unit_test(test_a_rank_that_has_closed_its_loader_is_not_awaited),
        cmocka_unit_test(test_ranks_at_different_rounds_are_told),
        cmocka_unit_test(test_lists_that_differ_are_told),
    };
    return stk_run_tests(tests);
}
