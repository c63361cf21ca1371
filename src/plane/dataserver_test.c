/* SPDX-License-Identifier: Apache-2.0
 *
 * A real DataServer with real workers and ranks that speak message by message: handshake, native and Python lanes,
 * memory, hostile messages, and its end. What happens when workers die is in pool_test.c.
 */
#include "tests/support/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "tests/support/plane_server.h"

enum { FRAMES = 4, SIDE = 32, SAMPLE_BYTES = FRAMES * 3 * SIDE * SIDE };

enum { CLIP_H264, CLIP_ROT90, CLIP_AUDIO, CLIP_MISSING, CLIP_VFR, CLIP_COUNT };

static stoker_source *media_source(void)
{
    static const char *const names[] = {"h264_bframes_g12.mp4", "rot90.mp4", "audio_only.m4a", "missing.mp4",
                                        "vfr.mp4"};
    static char paths[CLIP_COUNT][4096];
    const char *list[CLIP_COUNT];
    for (int i = 0; i < CLIP_COUNT; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", GOLDEN_MEDIA, names[i]);
        list[i] = paths[i];
    }
    stoker_path_list path_list = {list, CLIP_COUNT};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = FRAMES;
    spec.width = spec.height = SIDE;
    stoker_source *source = NULL;
    stoker_error err = {0};
    if (stoker_source_create_video(&path_list, &spec, &source, &err) != STOKER_OK) fail_msg("source: %s", err.message);
    return source;
}

static const struct plane_loader native = {.loader_id = 1, .num_workers = 2, .batch_samples_max = 8};
static const struct plane_loader python = {.loader_id = 1, .num_workers = 2};

/* A server with one rank that has one loader open, iteration 1 begun. */
static void begin(struct plane_server *server, struct plane_rank *rank, const stoker_source *source,
                  const struct plane_loader *loader)
{
    plane_start(server);
    plane_join(server, rank, 0, 1);
    plane_open(rank, source, loader);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, loader->loader_id, 1);
}

static void finish(struct plane_server *server, struct plane_rank *rank)
{
    plane_leave(rank);
    assert_int_equal(plane_wait(server), 0); /* the only rank has left: it ends by itself (rule B7) */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void expect_samples(const stoker_source *source, const struct plane_batch *batch, const uint64_t *ids,
                           size_t count)
{
    static uint8_t expected[SAMPLE_BYTES];
    assert_int_equal(batch->ready.leaf_count, 1);
    assert_int_equal(batch->ready.leaves[0].shape[0], count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(stoker_source_materialise(source, ids[i], expected, NULL), STOKER_OK);
        assert_memory_equal(batch->data + batch->ready.leaves[0].offset + i * SAMPLE_BYTES, expected, SAMPLE_BYTES);
    }
}

static void expect_filled(const struct plane_batch *batch, size_t size, uint8_t value)
{
    assert_int_equal(batch->ready.region.size, size + 4);
    for (size_t i = 0; i < size; i++) assert_int_equal(batch->data[i], value);
    assert_int_equal(batch->ready.skeleton_size, 4);
    assert_memory_equal(batch->data + batch->ready.skeleton_offset, "skel", 4);
}

/* ---- native lanes */

static void test_native_batches_equal_a_sequential_decode(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = media_source();
    begin(&server, &rank, source, &native);
    static const uint64_t ids[3][4] = {{CLIP_H264, CLIP_ROT90, CLIP_VFR, CLIP_H264},
                                       {CLIP_VFR, CLIP_VFR, CLIP_ROT90, CLIP_H264},
                                       {CLIP_ROT90, CLIP_H264, CLIP_VFR, CLIP_ROT90}};
    for (uint64_t i = 0; i < 3; i++) plane_request_ids(&rank, 1, 1, i, ids[i], 4);
    struct plane_batch batches[3];
    for (int n = 0; n < 3; n++) { /* they finish in any order */
        struct stk_message_ready ready;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        assert_true(ready.sequence < 3);
        plane_map(&rank, &ready, &batches[ready.sequence]);
    }
    for (int n = 0; n < 3; n++) {
        expect_samples(source, &batches[n], ids[n], 4);
        plane_release(&rank, &batches[n]);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_bad_sample_names_sample_file_and_cause(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[1024];
    stoker_source *source = media_source();
    struct plane_loader options = native;
    options.retries = 1;
    begin(&server, &rank, source, &options);
    const uint64_t bad[] = {CLIP_H264, CLIP_MISSING}, good[] = {CLIP_VFR};
    plane_request_ids(&rank, 1, 1, 0, bad, 2);
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(text, "sample 3 ('"));
    assert_non_null(strstr(text, "missing.mp4'): "));
    assert_non_null(strstr(text, "No such file"));
    /* The loader goes on, and nothing of the failed batch stays. */
    plane_request_ids(&rank, 1, 1, 1, good, 1);
    struct plane_batch batch;
    plane_take(&rank, 1, &batch);
    expect_samples(source, &batch, good, 1);
    plane_release(&rank, &batch);
    plane_wait_number(&rank, "used_bytes", 0);
    assert_int_equal(plane_number(plane_status(&rank), "tasks_retried"), 1);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_skip_fills_the_place_and_tells(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = media_source();
    struct plane_loader options = native;
    options.on_error = STOKER_ON_ERROR_SKIP;
    begin(&server, &rank, source, &options);
    const uint64_t ids[] = {CLIP_MISSING, CLIP_ROT90, CLIP_AUDIO, CLIP_VFR};
    const uint64_t shown[] = {CLIP_ROT90, CLIP_ROT90, CLIP_ROT90, CLIP_VFR};
    struct plane_batch batch;
    plane_request_ids(&rank, 1, 1, 0, ids, 4);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 2);
    expect_samples(source, &batch, shown, 4);
    assert_int_equal(rank.notices, 2);
    assert_non_null(strstr(rank.last_notice, "sample_skipped: sample "));
    plane_release(&rank, &batch);
    const uint64_t none[] = {CLIP_MISSING, CLIP_AUDIO};
    char text[1024];
    plane_request_ids(&rank, 1, 1, 1, none, 2);
    assert_int_equal(plane_take_failure(&rank, 1, text, sizeof text), STOKER_ERR_NOT_FOUND);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_replace_takes_the_next_sample(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = media_source();
    struct plane_loader options = native;
    options.on_error = STOKER_ON_ERROR_REPLACE;
    begin(&server, &rank, source, &options);
    const uint64_t ids[] = {CLIP_AUDIO, CLIP_H264}, shown[] = {CLIP_VFR, CLIP_H264};
    struct plane_batch batch;
    plane_request_ids(&rank, 1, 1, 0, ids, 2);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 1);
    expect_samples(source, &batch, shown, 2);
    plane_release(&rank, &batch);
    stoker_source_close(source);
    finish(&server, &rank);
}

/* ---- Python lanes */

static void test_python_batches_grow_into_their_size(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    char request[64];
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    /* The first has no size to go by, the second fits, the third is larger than any before, the fourth smaller. */
    static const size_t sizes[] = {100000, 100000, 700000, 10};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(request, sizeof request, "fill %zu %d", sizes[i], i + 1);
        plane_request(&rank, 1, 1, (uint64_t)i, request);
        plane_take(&rank, (uint64_t)i, &batch);
        expect_filled(&batch, sizes[i], (uint8_t)(i + 1));
        plane_release(&rank, &batch);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    assert_int_equal(plane_number(plane_status(&rank), "largest_bytes"), 700004);
    stoker_source_close(source);
    finish(&server, &rank);
}

/* B6: the first batch of a loader runs alone, so that the second knows its size. */
static void test_b6_first_batch_runs_alone(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    for (uint64_t i = 0; i < 4; i++) plane_request(&rank, 1, 1, i, i == 0 ? "hang-once 5000 1" : "fill 5000 2");
    pid_t busy = plane_wait_worker(&rank, "busy", 0);
    (void)plane_wait_worker(&rank, "idle", 0); /* the other one has nothing to do */
    assert_int_equal(plane_number(plane_status(&rank), "used_bytes"), 0);
    assert_int_equal(kill(busy, SIGKILL), 0);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.tasks_retried, 1);
    expect_filled(&batch, 5000, 1);
    plane_release(&rank, &batch);
    for (int i = 0; i < 3; i++) {
        struct stk_message_ready ready;
        plane_expect(&rank, STK_MESSAGE_READY);
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        plane_map(&rank, &ready, &batch);
        expect_filled(&batch, 5000, 2);
        plane_release(&rank, &batch);
    }
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_python_failure_carries_its_detail(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[256];
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    plane_request(&rank, 1, 1, 0, "fail it is broken");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_CORRUPT);
    assert_string_equal(text, "it is broken");
    struct stk_message_failed failed;
    assert_int_equal(stk_failed_decode(rank.in.body, &failed, NULL), STOKER_OK);
    assert_int_equal(failed.detail.size, 6);
    assert_memory_equal(failed.detail.data, "detail", 6);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_template_that_fails_is_told(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct stk_message_verdict verdict;
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    stoker_source *source = plane_bad_source("bad");
    plane_open(&rank, source, &python);
    plane_expect(&rank, STK_MESSAGE_LOADER_FAILED);
    assert_int_equal(stk_verdict_decode(rank.in.body, &verdict, NULL), STOKER_OK);
    assert_int_equal(verdict.loader_id, 1);
    assert_true(verdict.status < 0);
    assert_memory_equal(verdict.text.data, "cannot unpickle", verdict.text.size);
    assert_memory_equal(verdict.detail.data, "trace", verdict.detail.size);
    stoker_source_close(source);
    source = plane_bad_source("crash");
    plane_open(&rank, source, &python); /* the id is free again */
    plane_expect(&rank, STK_MESSAGE_LOADER_FAILED);
    assert_int_equal(stk_verdict_decode(rank.in.body, &verdict, NULL), STOKER_OK);
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    assert_non_null(strstr(text, "before the dataset was loaded: exited with status 3"));
    stoker_source_close(source);
    finish(&server, &rank);
}

/* ---- iterations and closing */

static void test_begin_drops_what_was_asked_before(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    struct plane_loader options = python;
    options.num_workers = 1;
    options.stall_limit_ns = STK_SECOND_NS / 5;
    begin(&server, &rank, source, &options);
    plane_request(&rank, 1, 1, 0, "fill 1000 1");
    plane_take(&rank, 0, &batch);
    plane_release(&rank, &batch);
    for (uint64_t i = 1; i < 6; i++) plane_request(&rank, 1, 1, i, "hang");
    (void)plane_wait_worker(&rank, "busy", 0);
    plane_begin(&rank, 1, 2);
    plane_request(&rank, 1, 2, 0, "fill 1000 7");
    plane_take(&rank, 0, &batch); /* as soon as the stall limit has freed the worker of the old task */
    assert_int_equal(batch.ready.generation, 2);
    expect_filled(&batch, 1000, 7);
    plane_release(&rank, &batch);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    finish(&server, &rank);
}

static void test_views_outlive_their_loader(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch kept, batch;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    plane_request(&rank, 1, 1, 0, "fill 200000 1");
    plane_take(&rank, 0, &kept);
    struct stk_message_loader_ref ref = {1, 0};
    PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
    struct plane_loader second = python;
    second.loader_id = 2;
    plane_open(&rank, source, &second);
    plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&rank, 2, 1);
    for (uint64_t i = 0; i < 8; i++) {
        plane_request(&rank, 2, 1, i, "fill 200000 2");
        plane_take(&rank, i, &batch);
        plane_release(&rank, &batch);
    }
    expect_filled(&kept, 200000, 1);
    assert_int_equal(plane_number(strstr(plane_status(&rank), "\"segments\""), "slabs"), 1);
    plane_release(&rank, &kept);
    plane_wait_number(&rank, "quarantined_bytes", 0);
    stoker_source_close(source);
    finish(&server, &rank);
}

/* A1: what does not fit twice is refused with both figures; a batch over max_bytes is an error, not a wait. */
static void test_a1_limits_are_named(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct stk_message_verdict verdict;
    struct plane_batch batch;
    char text[512];
    stoker_source *media = media_source(), *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    struct plane_loader options = native;
    options.max_bytes = 100000;
    plane_open(&rank, media, &options);
    plane_expect(&rank, STK_MESSAGE_LOADER_FAILED);
    assert_int_equal(stk_verdict_decode(rank.in.body, &verdict, NULL), STOKER_OK);
    assert_int_equal(verdict.status, STOKER_ERR_LIMIT);
    (void)snprintf(text, sizeof text, "%.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    assert_non_null(strstr(text, "100000"));
    options = python;
    options.max_bytes = 10000000;
    plane_open(&rank, source, &options);
    plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&rank, 1, 1);
    plane_request(&rank, 1, 1, 0, "fill 20000000 1");
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_LIMIT);
    assert_non_null(strstr(text, "20000004"));
    assert_non_null(strstr(text, "10000000"));
    plane_request(&rank, 1, 1, 1, "fill 1000 1");
    plane_take(&rank, 1, &batch);
    plane_release(&rank, &batch);
    stoker_source_close(media);
    stoker_source_close(source);
    finish(&server, &rank);
}

/* A5: a rank that keeps everything gets private copies, and goes on. */
static void test_a5_keeping_batches_does_not_stop(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    enum { COUNT = 24 };
    struct plane_batch batches[COUNT];
    stoker_source *source = plane_process_source();
    struct plane_loader options = python;
    options.max_bytes = 40 << 20;
    begin(&server, &rank, source, &options);
    int copies = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        plane_request(&rank, 1, 1, i, "fill 8000000 3");
        plane_take(&rank, i, &batches[i]);
        expect_filled(&batches[i], 8000000, 3);
        if (!(batches[i].ready.flags & STK_READY_COPY)) continue;
        plane_release(&rank, &batches[i]);
        copies++;
    }
    assert_true(copies >= COUNT - 5);
    assert_true(copies < COUNT);
    for (int i = 0; i < COUNT; i++) stk_shm_mapping_unref(batches[i].mapping); /* kept to the end, never returned */
    stoker_source_close(source);
    finish(&server, &rank);
}

/* ---- handshake and hostile messages */

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
    finish(&server, &rank);
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
    stoker_source *source = media_source();
    const uint64_t ids[] = {CLIP_VFR};
    plane_open(rank, source, &native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request_ids(rank, 1, 1, 3, ids, 1);
    stoker_source_close(source);
}

static void send_id_out_of_range(struct plane_rank *rank)
{
    stoker_source *source = media_source();
    const uint64_t ids[] = {CLIP_COUNT};
    plane_open(rank, source, &native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request_ids(rank, 1, 1, 0, ids, 1);
    stoker_source_close(source);
}

static void send_too_many_ids(struct plane_rank *rank)
{
    stoker_source *source = media_source();
    const uint64_t ids[9] = {0};
    plane_open(rank, source, &native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 1);
    plane_request_ids(rank, 1, 1, 0, ids, 9);
    stoker_source_close(source);
}

static void send_old_generation(struct plane_rank *rank)
{
    stoker_source *source = media_source();
    plane_open(rank, source, &native);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, 1, 4);
    plane_begin(rank, 1, 4);
    stoker_source_close(source);
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
    plane_open(&good, source, &python);
    plane_expect(&good, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&good, 1, 1);
    for (uint64_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        plane_join(&server, &bad, 1, 2);
        hostile[i](&bad);
        plane_expect_closed(&bad);
        plane_close(&bad);
        plane_request(&good, 1, 1, i, "fill 1000 1");
        plane_take(&good, i, &batch);
        expect_filled(&batch, 1000, 1);
        plane_release(&good, &batch);
        assert_int_equal(good.notices, (int)i + 1);
        assert_non_null(strstr(good.last_notice, "rank_lost: rank 1 "));
    }
    plane_wait_number(&good, "used_bytes", 0);
    stoker_source_close(source);
    finish(&server, &good);
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

/* ---- its end */

static void test_b7_waits_for_the_other_local_ranks(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank first, second;
    plane_start(&server);
    plane_join(&server, &first, 0, 2);
    plane_leave(&first);
    plane_join(&server, &second, 1, 2); /* it is still there: only one of two had come */
    finish(&server, &second);
}

static void test_stop_ends_at_once_with_work_at_hand(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = plane_process_source();
    begin(&server, &rank, source, &python);
    plane_request(&rank, 1, 1, 0, "hang");
    pid_t busy = plane_wait_worker(&rank, "busy", 0);
    assert_int_equal(plane_stop(&server), 0);
    assert_int_equal(kill(busy, 0), -1);
    assert_int_equal(errno, ESRCH);
    plane_expect_closed(&rank);
    plane_close(&rank);
    stoker_source_close(source);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    stoker_error err;
    stoker_dataserver_options options = STOKER_DATASERVER_OPTIONS_INIT;
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.key = "short";
    options.program = "stoker";
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.key = "0000000000000000000000000000000000000000000000000000000000000000";
    assert_int_equal(stoker_dataserver_run(&options, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_dataserver_run(NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native_batches_equal_a_sequential_decode),
        cmocka_unit_test(test_bad_sample_names_sample_file_and_cause),
        cmocka_unit_test(test_skip_fills_the_place_and_tells),
        cmocka_unit_test(test_replace_takes_the_next_sample),
        cmocka_unit_test(test_python_batches_grow_into_their_size),
        cmocka_unit_test(test_b6_first_batch_runs_alone),
        cmocka_unit_test(test_python_failure_carries_its_detail),
        cmocka_unit_test(test_template_that_fails_is_told),
        cmocka_unit_test(test_begin_drops_what_was_asked_before),
        cmocka_unit_test(test_views_outlive_their_loader),
        cmocka_unit_test(test_a1_limits_are_named),
        cmocka_unit_test(test_a5_keeping_batches_does_not_stop),
        cmocka_unit_test(test_b7_another_key_or_version_is_refused),
        cmocka_unit_test(test_hostile_ranks_cost_only_themselves),
        cmocka_unit_test(test_first_message_must_be_hello),
        cmocka_unit_test(test_b7_waits_for_the_other_local_ranks),
        cmocka_unit_test(test_stop_ends_at_once_with_work_at_hand),
        cmocka_unit_test(test_options_are_checked),
    };
    return stk_run_tests(tests);
}
