/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks in C against the real `stoker` program: what is delivered is what the source makes, whoever shares the
 * DataServer, whatever is kept, and whoever dies. Named after the rules of the plane.
 */
#include "tests/support/unit.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "sys/clock.h"
#include "sys/process.h"

enum { CLIPS = 6, BATCH = 2, EPOCHS = 2, WORLD = 2, PATIENCE_S = 60 };
#define SECOND UINT64_C(1000000000)

static const char *const clip_names[CLIPS] = {"h264_bframes_g12.mp4", "rot90.mp4",           "vfr.mp4",
                                              "sar16_11.mp4",         "vp9_odd227x171.webm", "fragmented.mp4"};

/* ---------------------------------------------------------------------------------------------------------- helpers */

/* Children have no cmocka: they say what failed and end. */
#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "# %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, error.message);                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static stoker_source *make_source(uint32_t frames, uint32_t side, const char *extra)
{
    char paths[CLIPS + 1][4096];
    const char *list[CLIPS + 1];
    for (int i = 0; i < CLIPS; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", GOLDEN_MEDIA, clip_names[i]);
        list[i] = paths[i];
    }
    if (extra) (void)snprintf(paths[CLIPS], sizeof paths[CLIPS], "%s/%s", GOLDEN_MEDIA, extra);
    list[CLIPS] = paths[CLIPS];
    stoker_path_list path_list = {.paths = list, .count = extra ? CLIPS + 1 : CLIPS};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = frames;
    spec.width = spec.height = side;
    stoker_source *source = NULL;
    stoker_error error = {0};
    NEED(stoker_source_create_video(&path_list, &spec, &source, &error) == STOKER_OK);
    return source;
}

static stoker_client *join_job(const char *job, uint32_t rank, uint32_t world)
{
    stoker_client_options options = STOKER_CLIENT_OPTIONS_INIT;
    stoker_client *client = NULL;
    stoker_error error = {0};
    options.job_key = job;
    options.program = STOKER_PROGRAM;
    options.rank = options.local_rank = rank;
    options.world_size = options.local_world_size = world;
    options.connect_timeout_ns = PATIENCE_S * SECOND; /* sanitizers start slowly */
    NEED(stoker_client_open(&options, &client, &error) == STOKER_OK);
    return client;
}

static stoker_loader *open_loader(stoker_client *client, const stoker_source *source, uint32_t batch,
                                  uint64_t max_bytes)
{
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    stoker_loader *loader = NULL;
    stoker_error error = {0};
    options.num_workers = 1;
    options.batch_samples_max = batch;
    options.max_bytes = max_bytes;
    NEED(stoker_loader_open(client, source, &options, &loader, &error) == STOKER_OK);
    NEED(stoker_loader_begin(loader, &error) == STOKER_OK);
    return loader;
}

static void request(stoker_loader *loader, const uint64_t *ids, size_t count)
{
    stoker_error error = {0};
    stoker_request wanted = {.ids = ids, .id_count = count};
    NEED(stoker_loader_request(loader, &wanted, &error) == STOKER_OK);
}

static stoker_batch *take(stoker_loader *loader)
{
    stoker_error error = {0};
    stoker_batch *batch = NULL;
    NEED(stoker_loader_next(loader, PATIENCE_S * SECOND, &batch, &error) == STOKER_OK);
    return batch;
}

static const uint8_t *bytes_of(const stoker_batch *batch, size_t *out_size)
{
    stoker_leaf leaf;
    stoker_error error = {0};
    NEED(stoker_batch_leaf(batch, 0, &leaf, &error) == STOKER_OK);
    *out_size = leaf.size;
    return leaf.data;
}

/* Do the samples of a batch equal what the source makes in this process? */
static void expect_samples(const stoker_source *source, const stoker_batch *batch, const uint64_t *ids, size_t count)
{
    stoker_error error = {0};
    stoker_descriptor descriptor;
    size_t size;
    const uint8_t *bytes = bytes_of(batch, &size);
    NEED(stoker_source_describe(source, 0, &descriptor, &error) == STOKER_OK);
    NEED(size == count * descriptor.sample_bytes);
    uint8_t *own = malloc(descriptor.sample_bytes);
    NEED(own);
    for (size_t i = 0; i < count; i++) {
        NEED(stoker_source_materialise(source, ids[i], own, &error) == STOKER_OK);
        NEED(memcmp(bytes + i * descriptor.sample_bytes, own, descriptor.sample_bytes) == 0);
    }
    free(own);
}

static void make_job(char *out, size_t size, const char *what)
{
    (void)snprintf(out, size, "c ranks %s %ld", what, (long)getpid());
}

static void expect_gone(int64_t pid)
{
    int pidfd = stk_process_open((pid_t)pid);
    if (pidfd < 0) return;
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, PATIENCE_S * 1000), 1);
    (void)close(pidfd);
}

static void expect_success(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Number after "name": in a status text. */
static long long number(const char *json, const char *name)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(json, quoted);
    assert_non_null(at);
    return strtoll(at + strlen(quoted), NULL, 10);
}

/* ---------------------------------------------------------------------------------------------------------- exactness
 */

static void run_rank(const char *job, uint32_t rank, int report_fd)
{
    stoker_error error = {0};
    stoker_source *source = make_source(4, 48, NULL);
    stoker_client *client = join_job(job, rank, WORLD);
    int64_t pid = stoker_client_server_pid(client);
    NEED(write(report_fd, &pid, sizeof pid) == sizeof pid);
    stoker_loader *loader = open_loader(client, source, BATCH, 0);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        if (epoch > 0) NEED(stoker_loader_begin(loader, &error) == STOKER_OK);
        uint64_t ids[CLIPS];
        for (uint64_t i = 0; i < CLIPS; i++) ids[i] = (i * 5 + epoch + rank * 3) % CLIPS; /* 5 and 6 share no factor */
        for (size_t at = 0; at < CLIPS; at += BATCH) request(loader, ids + at, BATCH);
        for (size_t at = 0; at < CLIPS; at += BATCH) {
            stoker_batch *batch = take(loader);
            expect_samples(source, batch, ids + at, BATCH);
            stoker_batch_unref(batch);
        }
        stoker_batch *none;
        NEED(stoker_loader_next(loader, 0, &none, &error) == STOKER_END);
    }
    stoker_loader_close(loader);
    stoker_client_close(client);
    stoker_source_close(source);
    exit(0);
}

static void test_b7_two_ranks_two_epochs_one_server(void **state)
{
    (void)state;
    char job[64];
    int report[2];
    int64_t pids[WORLD];
    pid_t children[WORLD];
    make_job(job, sizeof job, "two");
    assert_int_equal(pipe(report), 0);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        children[rank] = fork();
        assert_true(children[rank] >= 0);
        if (children[rank] == 0) run_rank(job, rank, report[1]);
    }
    (void)close(report[1]);
    for (int i = 0; i < WORLD; i++) assert_int_equal(read(report[0], &pids[i], sizeof pids[i]), sizeof pids[i]);
    (void)close(report[0]);
    assert_int_equal(pids[0], pids[1]);
    for (int i = 0; i < WORLD; i++) expect_success(children[i]);
    expect_gone(pids[0]); /* all ranks of the host have come and gone */
}

/* ---------------------------------------------------------------------------------------------------------- failure */

static void test_bad_sample_fails_its_step_only(void **state)
{
    (void)state;
    char job[64];
    make_job(job, sizeof job, "bad");
    stoker_source *source = make_source(4, 48, "audio_only.m4a");
    stoker_client *client = join_job(job, 0, 1);
    int64_t pid = stoker_client_server_pid(client);
    stoker_loader *loader = open_loader(client, source, BATCH, 0);
    static const uint64_t ids[3][BATCH] = {{0, 1}, {2, CLIPS}, {3, 4}};
    for (int i = 0; i < 3; i++) request(loader, ids[i], BATCH);
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            stoker_batch *batch = NULL;
            stoker_error error = {0};
            assert_int_equal(stoker_loader_next(loader, PATIENCE_S * SECOND, &batch, &error), STOKER_ERR_NOT_FOUND);
            assert_null(batch);
            assert_non_null(strstr(error.message, "audio_only.m4a"));
            assert_non_null(strstr(error.message, "sample 6"));
            assert_non_null(strstr(error.message, "no video stream"));
        } else {
            stoker_batch *batch = take(loader);
            expect_samples(source, batch, ids[i], BATCH);
            stoker_batch_unref(batch);
        }
    }
    stoker_loader_close(loader);
    stoker_client_close(client);
    stoker_source_close(source);
    expect_gone(pid);
}

static void test_killed_server_is_named_and_batches_stay(void **state)
{
    (void)state;
    char job[64], expected[128];
    stoker_error error = {0};
    stoker_batch *batch = NULL;
    static const uint64_t ids[BATCH] = {0, 1};
    make_job(job, sizeof job, "killed");
    stoker_source *source = make_source(4, 48, NULL);
    stoker_client *client = join_job(job, 0, 1);
    int64_t pid = stoker_client_server_pid(client);
    stoker_loader *loader = open_loader(client, source, BATCH, 0);
    request(loader, ids, BATCH);
    stoker_batch *kept = take(loader);
    assert_int_equal(kill((pid_t)pid, SIGSTOP), 0); /* so that it cannot answer before it dies */
    request(loader, ids, BATCH);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    uint64_t began = stk_clock_now_ns();
    assert_int_equal(stoker_loader_next(loader, UINT64_MAX, &batch, &error), STOKER_ERR_UNAVAILABLE);
    assert_true(stk_clock_now_ns() - began < 2 * SECOND);
    (void)snprintf(expected, sizeof expected, "the DataServer (pid %lld) of this job is gone", (long long)pid);
    assert_string_equal(error.message, expected);
    expect_samples(source, kept, ids, BATCH);
    stoker_loader_close(loader);
    stoker_client_close(client);
    expect_samples(source, kept, ids, BATCH);
    stoker_batch_unref(kept);
    stoker_source_close(source);
    /* The job can start again at once. */
    client = join_job(job, 0, 1);
    assert_int_not_equal(stoker_client_server_pid(client), pid);
    pid = stoker_client_server_pid(client);
    stoker_client_close(client);
    expect_gone(pid);
}

/* ---------------------------------------------------------------------------------------------------------- keeping */

static void test_a5_keeping_every_batch_completes(void **state)
{
    (void)state;
    enum { KEPT = 28, SIDE = 512, FRAMES = 2 }; /* 1.5 MiB a sample, 6 MiB a batch of 4: 168 MiB through 16 */
    char job[64];
    stoker_batch *kept[KEPT];
    static const uint64_t ids[4] = {4, 1, 4, 3};
    make_job(job, sizeof job, "keep");
    stoker_source *source = make_source(FRAMES, SIDE, NULL);
    stoker_client *client = join_job(job, 0, 1);
    int64_t pid = stoker_client_server_pid(client);
    stoker_loader *loader = open_loader(client, source, 4, 16 << 20);
    for (int i = 0; i < KEPT; i++) {
        request(loader, ids, 4);
        kept[i] = take(loader);
    }
    stoker_loader_stats stats;
    stoker_loader_read_stats(loader, &stats);
    assert_int_equal(stats.batches, KEPT);
    assert_true(stats.copies > 0 && stats.copies < KEPT);
    assert_true(stats.bytes_held <= 16 << 20);
    stoker_loader_close(loader);
    stoker_client_close(client);
    expect_samples(source, kept[0], ids, 4);
    size_t size, other;
    const uint8_t *first = bytes_of(kept[0], &size);
    for (int i = 1; i < KEPT; i++) {
        const uint8_t *bytes = bytes_of(kept[i], &other);
        assert_int_equal(size, other);
        assert_memory_equal(bytes, first, size);
    }
    for (int i = 0; i < KEPT; i++) stoker_batch_unref(kept[i]);
    stoker_source_close(source);
    expect_gone(pid);
}

static void test_a6_kept_batches_are_not_given_away(void **state)
{
    (void)state;
    char job[64];
    stoker_batch *kept[2];
    static const uint64_t ids[2][BATCH] = {{0, 2}, {4, 5}};
    make_job(job, sizeof job, "given");
    stoker_source *source = make_source(4, 48, NULL);
    stoker_client *client = join_job(job, 0, 2), *other = join_job(job, 1, 2);
    int64_t pid = stoker_client_server_pid(client);
    stoker_loader *loader = open_loader(client, source, BATCH, 0);
    request(loader, ids[0], BATCH);
    kept[0] = take(loader);
    stoker_loader_close(loader); /* the loader is gone, the client stays */
    loader = open_loader(client, source, BATCH, 0);
    request(loader, ids[1], BATCH);
    kept[1] = take(loader);
    for (int i = 0; i < 8; i++) {
        request(loader, ids[1], BATCH);
        stoker_batch_unref(take(loader));
    }
    expect_samples(source, kept[0], ids[0], BATCH);
    stoker_loader_close(loader);
    stoker_client_close(client); /* the client is gone, the other rank goes on */
    loader = open_loader(other, source, BATCH, 0);
    for (int i = 0; i < 8; i++) {
        request(loader, ids[1], BATCH);
        stoker_batch_unref(take(loader));
    }
    expect_samples(source, kept[0], ids[0], BATCH);
    expect_samples(source, kept[1], ids[1], BATCH);
    stoker_batch_unref(kept[0]);
    expect_samples(source, kept[1], ids[1], BATCH);
    stoker_loader_close(loader);
    stoker_client_close(other);
    expect_samples(source, kept[1], ids[1], BATCH);
    stoker_batch_unref(kept[1]);
    stoker_source_close(source);
    expect_gone(pid);
}

/* ---------------------------------------------------------------------------------------------------------- death */

/* A rank that keeps a batch, forks a helper that sleeps, says so and waits to be killed. */
static void keep_and_fork(const char *job, int report_fd, int hold_fd)
{
    stoker_error error = {0};
    static const uint64_t ids[BATCH] = {0, 1};
    char byte;
    stoker_source *source = make_source(4, 48, NULL);
    stoker_client *client = join_job(job, 1, 2);
    stoker_loader *loader = open_loader(client, source, BATCH, 0);
    request(loader, ids, BATCH);
    (void)take(loader); /* never dropped */
    if (fork() == 0) {
        (void)close(report_fd);
        (void)!read(hold_fd, &byte, 1);
        _exit(0);
    }
    NEED(write(report_fd, "k", 1) == 1);
    (void)pause();
    exit(1);
}

static void test_a9_slabs_of_a_killed_rank_return_though_its_helper_lives(void **state)
{
    (void)state;
    char job[64], byte;
    int report[2], hold[2], status;
    make_job(job, sizeof job, "helper");
    assert_int_equal(pipe(report), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(hold[1]);
        keep_and_fork(job, report[1], hold[0]);
    }
    (void)close(report[1]);
    assert_int_equal(read(report[0], &byte, 1), 1);
    stoker_client *client = join_job(job, 0, 2);
    int64_t pid = stoker_client_server_pid(client);
    char *json = NULL;
    stoker_error error = {0};
    assert_int_equal(stoker_client_status(client, PATIENCE_S * SECOND, &json, &error), STOKER_OK);
    assert_true(number(json, "used_bytes") > 0);
    stoker_text_free(json);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    uint64_t began = stk_clock_now_ns();
    for (long long used = 1; used > 0;) { /* each answer is an event of its own */
        assert_int_equal(stoker_client_status(client, PATIENCE_S * SECOND, &json, &error), STOKER_OK);
        used = number(json, "used_bytes");
        stoker_text_free(json);
        assert_true(stk_clock_now_ns() - began < 2 * SECOND);
    }
    stoker_client_close(client);
    (void)close(hold[1]); /* lets the helper go */
    (void)close(hold[0]);
    (void)close(report[0]);
    expect_gone(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b7_two_ranks_two_epochs_one_server),
        cmocka_unit_test(test_bad_sample_fails_its_step_only),
        cmocka_unit_test(test_killed_server_is_named_and_batches_stay),
        cmocka_unit_test(test_a5_keeping_every_batch_completes),
        cmocka_unit_test(test_a6_kept_batches_are_not_given_away),
        cmocka_unit_test(test_a9_slabs_of_a_killed_rank_return_though_its_helper_lives),
    };
    return stk_run_tests(tests);
}
