/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose fault a bad sample is, against real workers. What a decoder does to its process is done here before the file is
 * opened: files called crash, kill, spin and devour.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "plane/server_internal.h"
#include "tests/support/plane_session.h"
#include "tests/support/unit.h"

enum { GOOD, CRASH, KILL, SPIN, DEVOUR, BROKEN, MISSING, FILES };

static const char *const names[FILES] = {"good", "crash", "kill", "spin", "devour", "broken", "missing"};
/* CPU time of a sample: far above what a good one takes under a sanitizer on a slow machine. */
#define LIMIT_NS UINT64_C(1000000000)

static char folder[64], list_path[96], paths[FILES][128];

stoker_status __real_stk_source_make(const struct stoker_source *source, const stoker_sample *sample,
                                     void *const *places, struct stk_made *out_made, stoker_error *err);
stoker_status __wrap_stk_source_make(const struct stoker_source *source, const stoker_sample *sample,
                                     void *const *places, struct stk_made *out_made, stoker_error *err);

stoker_status __wrap_stk_source_make(const struct stoker_source *source, const stoker_sample *sample,
                                     void *const *places, struct stk_made *out_made, stoker_error *err)
{
    stoker_descriptor descriptor;
    STK_TRY(stoker_source_describe(source, sample->id, &descriptor, err));
    const char *name = descriptor.path ? strrchr(descriptor.path, '/') + 1 : "";
    if (strcmp(name, "crash") == 0) (void)raise(SIGSEGV);
    if (strcmp(name, "kill") == 0) (void)raise(SIGKILL);
    for (volatile uint64_t turns = 0; strcmp(name, "spin") == 0; turns++) continue;
    if (strcmp(name, "devour") == 0) {
        volatile char *memory = malloc((size_t)1 << 30);
        if (!memory) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a picture");
        memory[0] = 1; /* or the compiler leaves it out */
        free((void *)(uintptr_t)memory);
    }
    return __real_stk_source_make(source, sample, places, out_made, err);
}

/* A worker as the DataServer starts it: worker --fd N --isolation MODE --max-bytes N. */
static void play_worker(int argc, char **argv)
{
    if (argc < 8 || strcmp(argv[1], "worker") != 0) return;
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
    stoker_worker_options options = STOKER_WORKER_OPTIONS_INIT;
    options.isolation = argv[5][0] == 'a'   ? STOKER_ISOLATION_AUTO
                        : argv[5][1] == 'n' ? STOKER_ISOLATION_ON
                                            : STOKER_ISOLATION_OFF;
    options.max_bytes = strtoull(argv[7], NULL, 10);
    _exit(stoker_worker_serve((int)strtol(argv[3], NULL, 10), &options, NULL) == STOKER_OK ? 0 : 1);
}

static void copy_clip(const char *to)
{
    static uint8_t bytes[1 << 20];
    FILE *from = fopen(GOLDEN_MEDIA "/h264_bframes_g12.mp4", "rb"), *out = fopen(to, "wb");
    assert_non_null(from);
    assert_non_null(out);
    size_t size = fread(bytes, 1, sizeof bytes, from);
    assert_true(size > 0 && size < sizeof bytes);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out) | fclose(from), 0);
}

static int make_files(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-blame-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(list_path, sizeof list_path, "%s/q.sqlite", folder);
    for (int i = 0; i < FILES; i++) (void)snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
    for (int i = 0; i < BROKEN; i++) copy_clip(paths[i]);
    FILE *broken = fopen(paths[BROKEN], "wb");
    if (!broken || fputs("no video", broken) < 0) return -1;
    return fclose(broken);
}

static int drop_files(void **state)
{
    (void)state;
    char beside[128];
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int i = 0; i < FILES; i++) (void)unlink(paths[i]); /* one is missing */
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(beside, sizeof beside, "%s%s", list_path, suffixes[i]);
        (void)unlink(beside); /* where it was made */
    }
    return rmdir(folder);
}

static stoker_source *make_source(void)
{
    const char *list[FILES];
    for (int i = 0; i < FILES; i++) list[i] = paths[i];
    const stoker_path_list path_list = {.paths = list, .count = FILES};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = CLIP_FRAMES;
    spec.width = spec.height = CLIP_SIDE;
    stoker_source *source = NULL;
    assert_int_equal(stoker_source_create_video(&path_list, &spec, &source, NULL), STOKER_OK);
    return source;
}

struct session {
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source;
};

static void begin(struct session *session, struct plane_loader loader)
{
    loader.loader_id = 1;
    loader.num_workers = 1;
    loader.batch_samples_max = 8;
    session->source = make_source();
    session_begin(&session->server, &session->rank, session->source, &loader);
}

static void end(struct session *session)
{
    session_end(&session->server, &session->rank);
    stoker_source_close(session->source);
}

static void ask(struct session *session, uint64_t sequence, uint64_t bad)
{
    const uint64_t ids[] = {GOOD, bad};
    plane_request_ids(&session->rank, 1, 1, sequence, ids, 2);
}

/* The batch comes with the good sample in both places. */
static void expect_skipped(struct session *session, uint64_t sequence)
{
    struct plane_batch batch;
    const uint64_t ids[] = {GOOD, GOOD};
    plane_take(&session->rank, sequence, &batch);
    assert_int_equal(batch.ready.samples_skipped, 1);
    session_expect_samples(session->source, &batch, ids, 2);
    plane_release(&session->rank, &batch);
}

static void expect_failed(struct session *session, uint64_t sequence, stoker_status status, const char *words)
{
    char text[1024];
    stoker_status seen = plane_take_failure(&session->rank, sequence, text, sizeof text);
    if (seen != status || !strstr(text, words)) fail_msg("status %d: %s", (int)seen, text);
}

static long long counted(struct session *session, const char *name)
{
    return plane_number(plane_status(&session->rank), name);
}

static void test_a_file_that_crashes_two_workers_is_bad(void **state)
{
    (void)state;
    struct session session;
    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_SKIP});
    ask(&session, 0, CRASH);
    expect_skipped(&session, 0);
    assert_non_null(strstr(session.rank.last_notice, "sample 1 ('"));
    assert_non_null(strstr(session.rank.last_notice, "try 2: killed by signal 11"));
    assert_int_equal(counted(&session, "crashed"), 2);
    end(&session);

    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_RAISE});
    ask(&session, 0, CRASH);
    expect_failed(&session, 0, STOKER_ERR_LOST, "/crash'): worker");
    end(&session);
}

/* Rule C1: a SIGKILL comes from outside, so it says nothing of the data. */
static void test_c1_a_file_whose_workers_are_killed_is_not(void **state)
{
    (void)state;
    struct session session;
    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_SKIP});
    ask(&session, 0, KILL);
    expect_failed(&session, 0, STOKER_ERR_LOST, "killed by signal 9");
    end(&session);
}

/* Situation 10: a loop that never ends is ended from outside, and costs one worker. */
static void test_situation_10_a_sample_may_not_take_all_the_time_in_the_world(void **state)
{
    (void)state;
    struct session session;
    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_SKIP, .sample_cpu_ns = LIMIT_NS});
    ask(&session, 0, SPIN);
    expect_skipped(&session, 0);
    assert_non_null(strstr(session.rank.last_notice, "more than 1 s of CPU time"));
    assert_int_equal(counted(&session, "killed_overran"), 1);
    ask(&session, 1, GOOD); /* its worker was replaced */
    struct plane_batch batch;
    plane_take(&session.rank, 1, &batch);
    plane_release(&session.rank, &batch);
    end(&session);

    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_RAISE, .sample_cpu_ns = LIMIT_NS});
    ask(&session, 0, SPIN);
    expect_failed(&session, 0, STOKER_ERR_TIMEOUT, "CPU time for one sample (sample_timeout_s)");
    end(&session);
}

static void test_a_sample_that_needs_more_memory_than_it_may_have_is_bad(void **state)
{
    (void)state;
#ifdef STK_SANITIZED
    STK_SKIP("the sanitizer's shadow memory passes any limit");
#endif
    struct session session;
    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_SKIP, .worker_bytes = UINT64_C(256) << 20});
    ask(&session, 0, DEVOUR);
    expect_skipped(&session, 0);
    assert_non_null(strstr(session.rank.last_notice, "more than the 268435456 bytes that a worker may use"));
    end(&session);

    begin(&session, (struct plane_loader){.on_error = STOKER_ON_ERROR_SKIP}); /* as much as there is */
    ask(&session, 0, DEVOUR);
    struct plane_batch batch;
    plane_take(&session.rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 0);
    plane_release(&session.rank, &batch);
    end(&session);
}

/* ---- lists */

struct listed {
    int count;
    char text[2048];
};

static stoker_status note(void *user, const stoker_quarantine_entry *entry, stoker_error *err)
{
    (void)err;
    struct listed *listed = user;
    size_t used = strlen(listed->text);
    listed->count++;
    (void)snprintf(listed->text + used, sizeof listed->text - used, "%s %s %s\n", strrchr(entry->path, '/') + 1,
                   stoker_status_name(entry->status), entry->error);
    return STOKER_OK;
}

static struct listed read_list(void)
{
    struct listed listed = {0};
    stoker_quarantine *list = NULL;
    assert_int_equal(stoker_quarantine_open(list_path, STOKER_QUARANTINE_READ, &list, NULL), STOKER_OK);
    assert_int_equal(stoker_quarantine_walk(list, note, &listed, NULL), STOKER_OK);
    stoker_quarantine_close(list);
    return listed;
}

static void test_what_fails_is_listed_and_passed_over_by_the_next_run(void **state)
{
    (void)state;
    struct session session;
    const struct plane_loader first = {
        .on_error = STOKER_ON_ERROR_SKIP, .quarantine = list_path, .sample_cpu_ns = LIMIT_NS};
    begin(&session, first);
    const uint64_t bad[] = {CRASH, SPIN, BROKEN, MISSING};
    for (uint64_t i = 0; i < 4; i++) {
        ask(&session, i, bad[i]);
        expect_skipped(&session, i);
    }
    end(&session); /* what was handed over is on the disk when the server has ended */
    struct listed listed = read_list();
    assert_int_equal(listed.count, 4);
    assert_non_null(strstr(listed.text, "crash LOST worker"));
    assert_non_null(strstr(listed.text, "spin TIMEOUT worker"));
    assert_non_null(strstr(listed.text, "broken CORRUPT "));
    assert_non_null(strstr(listed.text, "missing NOT_FOUND "));

    begin(&session, first);
    for (uint64_t i = 0; i < 4; i++) {
        ask(&session, i, bad[i]);
        expect_skipped(&session, i);
    }
    assert_int_equal(counted(&session, "crashed"), 0); /* none of them was tried */
    assert_int_equal(counted(&session, "killed_overran"), 0);
    assert_int_equal(counted(&session, "samples_skipped"), 4);
    end(&session);
}

static void test_a_list_gets_past_what_is_on_it_and_new_failures_raise(void **state)
{
    (void)state;
    struct session session;
    const struct plane_loader raising = {.on_error = STOKER_ON_ERROR_RAISE, .quarantine = list_path};
    begin(&session, raising);
    ask(&session, 0, BROKEN);
    expect_failed(&session, 0, STOKER_ERR_CORRUPT, "/broken'): cannot open");
    ask(&session, 1, BROKEN); /* C1: it is listed now, and acts in the next run only */
    expect_failed(&session, 1, STOKER_ERR_CORRUPT, "cannot open");
    end(&session);
    begin(&session, raising);
    ask(&session, 0, BROKEN);
    expect_skipped(&session, 0);
    const uint64_t all[] = {BROKEN, BROKEN};
    plane_request_ids(&session.rank, 1, 1, 1, all, 2);
    expect_failed(&session, 1, STOKER_ERR_CORRUPT, "it is on the quarantine list '");
    ask(&session, 2, MISSING);
    expect_failed(&session, 2, STOKER_ERR_NOT_FOUND, "/missing'): ");
    end(&session);
}

static void test_a_repaired_file_is_tried_again(void **state)
{
    (void)state;
    struct session session;
    struct plane_batch batch;
    const struct plane_loader loader = {.on_error = STOKER_ON_ERROR_SKIP, .quarantine = list_path};
    begin(&session, loader);
    ask(&session, 0, BROKEN);
    expect_skipped(&session, 0);
    copy_clip(paths[BROKEN]); /* under the feet of a source that saw the old one: MISMATCH, which is not listed */
    ask(&session, 1, BROKEN);
    expect_skipped(&session, 1);
    end(&session);
    assert_int_equal(read_list().count, 1);
    begin(&session, loader);
    ask(&session, 0, BROKEN);
    plane_take(&session.rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 0);
    plane_release(&session.rank, &batch);
    end(&session);
}

static void test_c1_the_rank_is_told_the_digest_of_what_acts(void **state)
{
    (void)state;
    struct session session;
    struct stk_message_verdict verdict;
    struct plane_loader loader = {.loader_id = 1, .num_workers = 1, .batch_samples_max = 8, .quarantine = list_path};
    plane_start(&session.server);
    plane_join(&session.server, &session.rank, 0, 1);
    session.source = make_source();
    plane_open(&session.rank, session.source, &loader);
    plane_expect(&session.rank, STK_MESSAGE_LOADER_OPENED);
    assert_int_equal(stk_verdict_decode(session.rank.in.body, &verdict, NULL), STOKER_OK);
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0";
    assert_int_equal(verdict.text.size, sizeof empty - 1);
    assert_memory_equal(verdict.text.data, empty, sizeof empty - 1);
    end(&session);
}

/* ---- isolation */

static void test_c4_the_status_says_who_is_isolated(void **state)
{
    (void)state;
    static const char *const said[] = {"\"isolated\": true", "\"isolated\": false"};
    for (uint32_t isolation = STOKER_ISOLATION_AUTO; isolation <= STOKER_ISOLATION_OFF; isolation++) {
        struct session session;
        struct plane_batch batch;
#ifdef STK_SANITIZED
        const bool locks = false;
        if (isolation == STOKER_ISOLATION_ON) continue; /* it cannot be had, see below */
#else
        const bool locks = isolation != STOKER_ISOLATION_OFF;
#endif
        begin(&session, (struct plane_loader){.isolation = isolation});
        ask(&session, 0, GOOD);
        plane_take(&session.rank, 0, &batch); /* a worker has spoken */
        plane_release(&session.rank, &batch);
        const char *status = plane_status(&session.rank);
        assert_non_null(strstr(status, said[!locks]));
        assert_non_null(strstr(status, locks ? "\"not_isolated\": null" : "\"not_isolated\": \""));
        end(&session);
    }
}

#ifdef STK_SANITIZED
static void test_c4_isolation_that_cannot_be_had_is_refused_with_the_reason(void **state)
{
    (void)state;
    struct session session;
    begin(&session, (struct plane_loader){.isolation = STOKER_ISOLATION_ON});
    ask(&session, 0, GOOD);
    expect_failed(&session, 0, STOKER_ERR_UNSUPPORTED, "sanitizer");
    end(&session);
}
#endif

/* The strictest wish counts, for workers that run already, too. */
static void test_c4_a_stricter_loader_replaces_the_workers(void **state)
{
    (void)state;
    struct session session;
    struct plane_batch batch;
    begin(&session, (struct plane_loader){.isolation = STOKER_ISOLATION_OFF});
    ask(&session, 0, GOOD);
    plane_take(&session.rank, 0, &batch);
    plane_release(&session.rank, &batch);
    pid_t before = plane_wait_worker(&session.rank, "idle", 0);
    const struct plane_loader stricter = {
        .loader_id = 2, .num_workers = 1, .batch_samples_max = 8, .isolation = STOKER_ISOLATION_AUTO};
    plane_open(&session.rank, session.source, &stricter);
    plane_expect(&session.rank, STK_MESSAGE_LOADER_OPENED);
    plane_wait_number(&session.rank, "started", 3); /* one more, and one in place of the old one */
    ask(&session, 1, GOOD);
    plane_take(&session.rank, 1, &batch);
    plane_release(&session.rank, &batch);
    char old[32];
    (void)snprintf(old, sizeof old, "{\"pid\": %ld,", (long)before);
    assert_null(strstr(plane_status(&session.rank), old));
    end(&session);
}

int main(int argc, char **argv)
{
    play_worker(argc, argv);
    plane_play(argc, argv);
#define FILES_TEST(name) cmocka_unit_test_setup_teardown(name, make_files, drop_files)
    const struct CMUnitTest tests[] = {
        FILES_TEST(test_a_file_that_crashes_two_workers_is_bad),
        FILES_TEST(test_c1_a_file_whose_workers_are_killed_is_not),
        FILES_TEST(test_situation_10_a_sample_may_not_take_all_the_time_in_the_world),
        FILES_TEST(test_a_sample_that_needs_more_memory_than_it_may_have_is_bad),
        FILES_TEST(test_what_fails_is_listed_and_passed_over_by_the_next_run),
        FILES_TEST(test_a_list_gets_past_what_is_on_it_and_new_failures_raise),
        FILES_TEST(test_a_repaired_file_is_tried_again),
        FILES_TEST(test_c1_the_rank_is_told_the_digest_of_what_acts),
        FILES_TEST(test_c4_the_status_says_who_is_isolated),
#ifdef STK_SANITIZED
        FILES_TEST(test_c4_isolation_that_cannot_be_had_is_refused_with_the_reason),
#endif
        FILES_TEST(test_c4_a_stricter_loader_replaces_the_workers),
    };
    return stk_run_tests(tests);
}
