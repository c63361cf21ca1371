/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads at once: all of them, in parts, the lowest failure, and an end that moves.
 */
#include "store/jobs.h"

#include <string.h>

#include "base/limits.h"
#include "store/range_fixture.h"

enum { JOBS = 40 };

struct table {
    struct stk_mutex *lock;
    unsigned ran[JOBS], count;
    size_t fails_from;
};

static stoker_status run_job(void *user, size_t job, stoker_error *err)
{
    struct table *table = user;
    stk_mutex_lock(table->lock);
    table->ran[job]++;
    table->count++;
    stk_mutex_unlock(table->lock);
    return job >= table->fails_from ? stk_fail(err, STOKER_ERR_IO, "job %zu", job) : STOKER_OK;
}

static void test_jobs_run_each_once(void **state)
{
    (void)state;
    static const unsigned ways[] = {0, 1, 2, 7, 1000};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct table table = {.fails_from = JOBS};
        assert_int_equal(stk_mutex_create(90, &table.lock, NULL), STOKER_OK);
        assert_int_equal(stk_jobs_run(JOBS, ways[i], run_job, &table, NULL), STOKER_OK);
        for (unsigned job = 0; job < JOBS; job++) assert_int_equal(table.ran[job], 1);
        stk_mutex_destroy(table.lock);
    }
    assert_int_equal(stk_jobs_run(0, 4, run_job, NULL, NULL), STOKER_OK);
}

static void test_jobs_stop_at_a_failure(void **state)
{
    (void)state;
    struct table table = {.fails_from = 3};
    stoker_error err = {0};
    assert_int_equal(stk_mutex_create(90, &table.lock, NULL), STOKER_OK);
    assert_int_equal(stk_jobs_run(JOBS, 1, run_job, &table, &err), STOKER_ERR_IO);
    assert_string_equal(err.message, "job 3");
    assert_int_equal(table.count, 4);
    table = (struct table){.lock = table.lock, .fails_from = 3};
    assert_int_equal(stk_jobs_run(JOBS, 8, run_job, &table, &err), STOKER_ERR_IO);
    assert_string_equal(err.message, "job 3"); /* begun in order, so the lowest failing one always runs */
    assert_int_equal(stk_jobs_run(JOBS, 8, run_job, &table, NULL), STOKER_ERR_IO);
    stk_mutex_destroy(table.lock);
}

static void test_pieces_are_cut_into_parts_read_at_once(void **state)
{
    (void)state;
    uint64_t whole = STK_RANGE_PART_BYTES * 2 + 1000;
    struct fake_range *fake = fake_open(whole, 8);
    uint8_t *out = malloc((size_t)whole + 500), small[10];
    assert_non_null(out);
    stoker_error err = {0};
    struct stk_piece pieces[] = {{5, (size_t)whole + 100, out, 0}, {7, 0, NULL, 0}, {20, 10, small, 0}};
    fake->gather = 4; /* the three parts and the small piece are all under way together */
    assert_int_equal(stk_range_read_pieces(&fake->head, pieces, 3, &err), STOKER_OK);
    assert_true(pieces[0].got == whole - 5);
    assert_int_equal(pieces[1].got, 0);
    assert_int_equal(pieces[2].got, 10);
    assert_int_equal(fake->count, 4);
    for (size_t i = 0; i < pieces[0].got; i += 997) assert_int_equal(out[i], fake_byte(5 + i));
    assert_int_equal(small[9], fake_byte(29));
    stk_range_close(&fake->head);

    fake = fake_open(whole, 1); /* a backend that gains nothing is asked once */
    pieces[0].got = 0;
    assert_int_equal(stk_range_read_pieces(&fake->head, pieces, 1, &err), STOKER_OK);
    assert_int_equal(fake->count, 1);
    stk_range_close(&fake->head);
    free(out);
}

static void test_pieces_refuse_an_end_before_bytes(void **state)
{
    (void)state;
    uint64_t whole = STK_RANGE_PART_BYTES * 3;
    struct fake_range *fake = fake_open(whole, 8);
    uint8_t *out = malloc((size_t)whole);
    assert_non_null(out);
    stoker_error err = {0};
    struct stk_piece piece = {0, (size_t)whole, out, 0};
    fake->empty_at = STK_RANGE_PART_BYTES;
    assert_int_equal(stk_range_read_pieces(&fake->head, &piece, 1, &err), STOKER_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "ended at byte 16777216 for one request"));
    fake->empty_at = STK_RANGE_PART_BYTES * 2; /* without a gap it is only short, which stk_range_read() tells */
    assert_int_equal(stk_range_read_pieces(&fake->head, &piece, 1, &err), STOKER_OK);
    assert_true(piece.got == STK_RANGE_PART_BYTES * 2);
    fake->empty_at = UINT64_MAX;
    fake->fails_at = STK_RANGE_PART_BYTES + 1;
    assert_int_equal(stk_range_read_pieces(&fake->head, &piece, 1, &err), STOKER_ERR_IO);
    assert_non_null(strstr(err.message, "today"));
    stk_range_close(&fake->head);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_run_each_once),
        cmocka_unit_test(test_jobs_stop_at_a_failure),
        cmocka_unit_test(test_pieces_are_cut_into_parts_read_at_once),
        cmocka_unit_test(test_pieces_refuse_an_end_before_bytes),
    };
    return stk_run_tests(tests);
}
