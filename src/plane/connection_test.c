/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a real DataServer: handshake, messages that make no sense, silence, death.
 */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "sys/clock.h"
#include "tests/support/plane_session.h"

static void hello(struct plane_rank *rank, const char *key, const char *version)
{
    struct stk_message_hello message = {.key = {key, strlen(key)},
                                        .version = {version, strlen(version)},
                                        .world_size = 1,
                                        .local_world_size = 1,
                                        .pid = getpid()};
    PLANE_SEND(rank, STK_MESSAGE_HELLO, hello, &message);
}

static void expect_refused(struct plane_rank *rank, const char *ours, const char *theirs)
{
    struct stk_message_verdict verdict;
    char text[512];
    plane_expect(rank, STK_MESSAGE_REFUSED);
    assert_int_equal(stk_verdict_decode(rank->in.body, &verdict, NULL), STOKER_OK);
    assert_int_equal(verdict.status, STOKER_ERR_MISMATCH);
    (void)snprintf(text, sizeof text, "%.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    assert_non_null(strstr(text, ours));
    assert_non_null(strstr(text, theirs));
    plane_expect_closed(rank);
    plane_close(rank);
}

typedef void (*hostile_fn)(struct plane_rank *rank);

static void send_garbage(struct plane_rank *rank)
{
    static const char noise[64] = "this is no frame";
    assert_int_equal(write(stk_channel_fd(rank->channel), noise, sizeof noise), (int)sizeof noise);
}

static void send_worker_message(struct plane_rank *rank)
{
    struct stk_message_done done = {.item_id = 1};
    PLANE_SEND(rank, STK_MESSAGE_DONE, done, &done);
}

static void send_release_of_nothing(struct plane_rank *rank)
{
    uint8_t id[8];
    stk_store_u64(id, 12345);
    struct stk_message_release release = {{id, sizeof id}};
    PLANE_SEND(rank, STK_MESSAGE_RELEASE, release, &release);
}

static void send_request_without_loader(struct plane_rank *rank) { plane_request(rank, 99, 1, 0, "fill 1 1"); }

static void send_begin_without_loader(struct plane_rank *rank) { plane_begin(rank, 99, 1); }

static void send_open_without_source(struct plane_rank *rank)
{
    uint8_t digest[32] = {0};
    struct stk_message_loader_open open = {.loader_id = 5,
                                           .kind = STK_SOURCE_MEDIA,
                                           .num_workers = 1,
                                           .batch_samples_max = 1,
                                           .max_bytes = 1 << 20,
                                           .stall_limit_ns = STK_SECOND_NS,
                                           .digest = {digest, 32}};
    PLANE_SEND(rank, STK_MESSAGE_LOADER_OPEN, loader_open, &open);
    plane_expect(rank, STK_MESSAGE_LOADER_FAILED); /* an answer, not the end of the connection */
    send_garbage(rank);
}

static void send_wrong_sequence(struct plane_rank *rank)
{
    stoker_source *source = session_media_source();
    const uint64_t ids[] = {CLIP_VFR};
    plane_open(rank, source, &session_native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request_ids(rank, 1, 1, 3, ids, 1);
    stoker_source_close(source);
}

static void send_id_out_of_range(struct plane_rank *rank)
{
    stoker_source *source = session_media_source();
    const uint64_t ids[] = {CLIP_COUNT};
    plane_open(rank, source, &session_native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request_ids(rank, 1, 1, 0, ids, 1);
    stoker_source_close(source);
}

static void send_too_many_ids(struct plane_rank *rank)
{
    stoker_source *source = session_media_source();
    const uint64_t ids[9] = {0};
    plane_open(rank, source, &session_native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request_ids(rank, 1, 1, 0, ids, 9);
    stoker_source_close(source);
}

static void send_old_generation(struct plane_rank *rank)
{
    stoker_source *source = session_media_source();
    plane_open(rank, source, &session_native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 4);
    plane_begin(rank, 1, 4);
    stoker_source_close(source);
}

/* B7: registration refuses another key or version, and names both sides. */
static void test_b7_another_key_or_version_is_refused(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char other[65], shown[17];
    plane_start(&server);
    plane_connect(&server, &rank);
    memset(other, 'a', 64);
    other[64] = 0;
    hello(&rank, other, STOKER_VERSION);
    memcpy(shown, server.key, 16);
    shown[16] = 0;
    expect_refused(&rank, shown, "aaaaaaaaaaaaaaaa");
    plane_connect(&server, &rank);
    hello(&rank, server.key, "99.0");
    expect_refused(&rank, STOKER_VERSION, "99.0");
    plane_join(&server, &rank, 0, 1);
    session_end(&server, &rank);
}

/* A rank whose messages make no sense loses its connection; the server and the other ranks go on. */
static void test_hostile_ranks_cost_only_themselves(void **state)
{
    (void)state;
    static const hostile_fn hostile[] = {send_garbage,
                                         send_worker_message,
                                         send_release_of_nothing,
                                         send_wrong_sequence,
                                         send_request_without_loader,
                                         send_begin_without_loader,
                                         send_id_out_of_range,
                                         send_too_many_ids,
                                         send_old_generation,
                                         send_open_without_source};
    struct plane_server server;
    struct plane_rank good, bad;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &good, 0, 2);
    plane_open(&good, source, &session_python);
    plane_expect(&good, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&good, 1, 1);
    for (uint64_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        plane_join(&server, &bad, 1, 2);
        hostile[i](&bad);
        plane_expect_closed(&bad);
        plane_close(&bad);
        plane_request(&good, 1, 1, i, "fill 1000 1");
        plane_take(&good, i, &batch);
        session_expect_filled(&batch, 1000, 1);
        plane_release(&good, &batch);
        assert_int_equal(good.notices, (int)i + 1);
        assert_non_null(strstr(good.last_notice, "rank_lost: rank 1 "));
    }
    plane_wait_number(&good, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &good);
}

static void test_first_message_must_be_hello(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    plane_start(&server);
    plane_connect(&server, &rank);
    send_begin_without_loader(&rank);
    plane_expect_closed(&rank);
    plane_close(&rank);
    assert_int_equal(plane_stop(&server), 0);
}

/* A9: a rank forks a helper that sleeps, the rank is killed: its slabs come back although the helper holds its socket.
 */
static void test_a9_slabs_of_a_killed_rank_come_back(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank other;
    int ready[2];
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &other, 1, 2);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct plane_rank rank;
        struct plane_batch batch;
        plane_join(&server, &rank, 0, 2);
        plane_open(&rank, source, &session_python);
        plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
        plane_begin(&rank, 1, 1);
        plane_request(&rank, 1, 1, 0, "fill 3000000 1");
        plane_take(&rank, 0, &batch);
        plane_request(&rank, 1, 1, 1, "hang");
        pid_t helper = fork();
        if (helper == 0) { /* inherits the socket */
            (void)close(ready[0]);
            for (;;) (void)pause();
        }
        (void)!write(ready[1], &helper, sizeof helper);
        for (;;) (void)pause();
    }
    pid_t helper;
    assert_int_equal(read(ready[0], &helper, sizeof helper), (int)sizeof helper);
    (void)plane_wait_worker(&other, "busy", 0);
    assert_true(plane_number(plane_status(&other), "used_bytes") >= 3000000);
    uint64_t before_ns = stk_clock_now_ns();
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    plane_wait_number(&other, "used_bytes", 0);
    assert_true(stk_clock_now_ns() - before_ns < 2 * STK_SECOND_NS); /* the rule's own figure */
    assert_int_equal(plane_number(plane_status(&other), "quarantined_bytes"), 0);
    assert_non_null(strstr(other.last_notice, "rank_lost: rank 0 "));
    assert_int_equal(kill(helper, SIGKILL), 0);
    (void)close(ready[0]);
    (void)close(ready[1]);
    stoker_source_close(source);
    plane_leave(&other);
    assert_int_equal(plane_wait(&server), 0);
}

/* A rank that reads nothing does not hold up the others, nor the end of the server. */
static void test_silent_rank_blocks_nobody(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank good, silent;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &good, 0, 2);
    plane_join(&server, &silent, 1, 2);
    plane_open(&good, source, &session_python);
    plane_expect(&good, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&good, 1, 1);
    for (uint64_t i = 0; i < 2000; i++) { /* some megabytes of answers, more than a socket takes */
        struct stk_message_status query = {.token = i};
        PLANE_SEND(&silent, STK_MESSAGE_STATUS_QUERY, status, &query);
    }
    for (uint64_t i = 0; i < 20; i++) {
        plane_request(&good, 1, 1, i, "fill 1000 1");
        plane_take(&good, i, &batch);
        session_expect_filled(&batch, 1000, 1);
        plane_release(&good, &batch);
    }
    for (uint64_t i = 0; i < 2000; i++) plane_expect(&silent, STK_MESSAGE_STATUS); /* nothing was lost either */
    plane_leave(&silent);
    stoker_source_close(source);
    session_end(&server, &good);
}

/* Until the server has seen that all others are gone. */
static void wait_until_alone(struct plane_rank *observer)
{
    static const char connected[] = "\"state\": \"connected\"";
    const char *first;
    do first = strstr(plane_status(observer), connected);
    while (first && strstr(first + 1, connected));
    assert_non_null(first);
}

/* A script that still holds its last batch when it ends: its loader is closed, so nobody misses it. With an open one,
 * or without ever having had one, its end is told. */
static void test_rank_that_closed_its_loaders_is_not_lost(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank, other;
    struct plane_batch batch;
    const struct stk_message_loader_ref ref = {1, 0};
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &other, 1, 2);
    for (int closes = 1; closes >= 0; closes--) {
        plane_join(&server, &rank, 0, 2);
        plane_open(&rank, source, &session_python);
        plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
        plane_begin(&rank, 1, 1);
        plane_request(&rank, 1, 1, 0, "fill 1000 1");
        plane_take(&rank, 0, &batch);
        if (closes) PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
        plane_close(&rank);
        wait_until_alone(&other);
        assert_int_equal(other.notices, closes ? 0 : 1);
        stk_shm_mapping_unref(batch.mapping); /* or the servers of later tests, forked of this process, leak it */
    }
    plane_join(&server, &rank, 0, 2);
    plane_close(&rank);
    wait_until_alone(&other);
    assert_int_equal(other.notices, 2);
    stoker_source_close(source);
    session_end(&server, &other);
}

/* A BYE that was sent just before the process ended is read: nobody is told of a loss. */
static void test_rank_that_says_bye_and_ends_is_not_lost(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank other;
    plane_start(&server);
    plane_join(&server, &other, 1, 2);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct plane_rank rank;
            plane_join(&server, &rank, 0, 2);
            plane_leave(&rank);
            _exit(0);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        (void)plane_status(&other);
        assert_int_equal(other.notices, 0);
    }
    session_end(&server, &other);
}

/* Nor if the server was just about to tell it of something, and found its connection closed while sending. */
static void test_bye_is_read_behind_a_failed_send(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank other, lost, leaving;
    plane_start(&server);
    plane_join(&server, &other, 1, 3);
    plane_join(&server, &lost, 0, 3);
    plane_join(&server, &leaving, 2, 3);
    assert_int_equal(kill(server.pid, SIGSTOP), 0);
    plane_close(&lost); /* the others are to be told, one of whom is gone by then */
    plane_leave(&leaving);
    assert_int_equal(kill(server.pid, SIGCONT), 0);
    wait_until_alone(&other);
    assert_int_equal(other.notices, 1);
    assert_non_null(strstr(other.last_notice, "rank_lost: rank 0 "));
    session_end(&server, &other);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b7_another_key_or_version_is_refused),
        cmocka_unit_test(test_hostile_ranks_cost_only_themselves),
        cmocka_unit_test(test_first_message_must_be_hello),
        cmocka_unit_test(test_a9_slabs_of_a_killed_rank_come_back),
        cmocka_unit_test(test_silent_rank_blocks_nobody),
        cmocka_unit_test(test_rank_that_closed_its_loaders_is_not_lost),
        cmocka_unit_test(test_rank_that_says_bye_and_ends_is_not_lost),
        cmocka_unit_test(test_bye_is_read_behind_a_failed_send),
    };
    return stk_run_tests(tests);
}
