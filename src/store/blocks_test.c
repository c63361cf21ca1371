/* SPDX-License-Identifier: Apache-2.0
 *
 * The block cache: which requests it makes with room for one block and for many, from many threads, after failures and
 * in a forked child.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/range_fixture.h"
#include "tests/support/allocations.h"

static struct stk_range *open_over(struct fake_range *fake, uint64_t block_bytes, uint64_t cache_bytes)
{
    struct stk_range *range = NULL;
    assert_int_equal(stk_range_open_blocks(&fake->head, block_bytes, cache_bytes, &range, NULL), STOKER_OK);
    return range;
}

/* The read asks for exactly [start, end), or for nothing if start == end. */
static void expect_request(struct stk_range *range, struct fake_range *fake, uint64_t offset, size_t size,
                           uint64_t start, uint64_t end)
{
    unsigned before = fake->count;
    fake_expect(range, offset, size);
    assert_int_equal(fake->count - before, start < end);
    if (start == end) return;
    assert_int_equal(fake->requests[before].offset, start);
    assert_int_equal(fake->requests[before].size, end - start);
}

static void test_blocks_one_block_follows_the_reference(void **state)
{
    (void)state;
    struct fake_range *fake = fake_open(2048, 8);
    struct stk_range *range = open_over(fake, 100, 100);
    char rest[16];
    stoker_error err = {0};
    expect_request(range, fake, 500, 0, 0, 0); /* nothing is wanted, nothing is fetched */
    expect_request(range, fake, 0, 20, 0, 100);
    expect_request(range, fake, 50, 50, 0, 0);
    expect_request(range, fake, 190, 20, 100, 210); /* to the end of the read, not of the block */
    expect_request(range, fake, 205, 5, 0, 0);
    expect_request(range, fake, 205, 6, 200, 300);
    expect_request(range, fake, 150, 8, 100, 200); /* the block before is gone */
    expect_request(range, fake, 95, 700, 0, 795);
    expect_request(range, fake, 400, 100, 0, 0);
    expect_request(range, fake, 2040, 8, 2000, 2100); /* past the end of the object */
    expect_request(range, fake, 2000, 48, 0, 0);
    unsigned before = fake->count;
    assert_int_equal(stk_range_read(range, 2044, 8, rest, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "ends before byte 2052"));
    assert_int_equal(fake->count, before); /* the block answers that, too */
    assert_int_equal(stk_range_read(range, 5000, 8, rest, &err), STOKER_ERR_CORRUPT);
    stk_range_close(range);
}

static void test_blocks_many_keep_the_last_used(void **state)
{
    (void)state;
    struct fake_range *fake = fake_open(1000, 8);
    struct stk_range *range = open_over(fake, 100, 300);
    expect_request(range, fake, 10, 10, 0, 100);
    expect_request(range, fake, 110, 10, 100, 200);
    expect_request(range, fake, 210, 10, 200, 300);
    expect_request(range, fake, 50, 10, 0, 0); /* block 1 is the oldest now */
    expect_request(range, fake, 399, 1, 300, 400);
    expect_request(range, fake, 0, 100, 0, 0);
    expect_request(range, fake, 150, 10, 100, 200);
    expect_request(range, fake, 160, 10, 0, 0);

    unsigned before = fake->count; /* over two blocks, one of which is there */
    fake_expect(range, 190, 20);
    assert_int_equal(fake->count - before, 1);
    assert_int_equal(fake->requests[before].offset, 200);

    before = fake->count; /* more than half of the cache goes past it */
    fake_expect(range, 0, 1000);
    assert_int_equal(fake->count - before, 1);
    assert_int_equal(fake->requests[before].size, 1000);
    stk_range_close(range);
}

static void test_blocks_fetch_missing_ones_at_once(void **state)
{
    (void)state;
    struct fake_range *fake = fake_open(10000, 8);
    struct stk_range *range = open_over(fake, 100, 4000);
    fake->gather = 6; /* none of the six is answered before all are asked for */
    fake_expect(range, 150, 500);
    assert_int_equal(fake->count, 6);
    fake->gather = 0;
    fake_expect(range, 100, 600);
    assert_int_equal(fake->count, 6);
    for (uint64_t at = 0; at < 10000; at += 77) fake_expect(range, at, at + 300 < 10000 ? 300 : 10000 - at);
    stk_range_close(range);
}

struct reader {
    struct stk_range *range;
    unsigned number;
};

static void read_much(void *argument)
{
    struct reader *reader = argument;
    uint8_t got[400];
    uint64_t at = reader->number * 37u;
    for (unsigned i = 0; i < 2000; i++) {
        at = (at * 1103515245u + 12345u) % 9000;
        size_t size = (size_t)(at % 390) + 1;
        if (stk_range_read(reader->range, at, size, got, NULL) != STOKER_OK) abort();
        for (size_t k = 0; k < size; k++)
            if (got[k] != fake_byte(at + k)) abort();
    }
}

static void test_blocks_serve_many_threads(void **state)
{
    (void)state;
    static const uint64_t cache_bytes[] = {100, 700, 10000};
    for (size_t round = 0; round < 3; round++) {
        struct fake_range *fake = fake_open(10000, 8);
        struct stk_range *range = open_over(fake, 100, cache_bytes[round]);
        struct reader readers[4];
        struct stk_thread *threads[4];
        fake->unlogged = true;
        for (unsigned i = 0; i < 4; i++) {
            readers[i] = (struct reader){range, i};
            assert_int_equal(stk_thread_start("reader", read_much, &readers[i], &threads[i], NULL), STOKER_OK);
        }
        for (unsigned i = 0; i < 4; i++) stk_thread_join(threads[i]);
        stk_range_close(range);
    }
}

static void read_first(void *argument)
{
    struct reader *reader = argument;
    uint8_t got[10];
    if (stk_range_read(reader->range, reader->number, 10, got, NULL) != STOKER_OK) abort();
}

static void test_blocks_wanted_by_many_are_fetched_once(void **state)
{
    (void)state;
    struct fake_range *fake = fake_open(1000, 8);
    struct stk_range *range = open_over(fake, 100, 1000);
    struct reader readers[4];
    struct stk_thread *threads[4];
    for (unsigned i = 0; i < 4; i++) {
        readers[i] = (struct reader){range, i};
        assert_int_equal(stk_thread_start("reader", read_first, &readers[i], &threads[i], NULL), STOKER_OK);
    }
    for (unsigned i = 0; i < 4; i++) stk_thread_join(threads[i]);
    assert_int_equal(fake->count, 1);
    stk_range_close(range);
}

static void test_blocks_a_failed_block_is_asked_for_again(void **state)
{
    (void)state;
    static const uint64_t cache_bytes[] = {100, 1000};
    for (size_t round = 0; round < 2; round++) {
        struct fake_range *fake = fake_open(1000, 8);
        struct stk_range *range = open_over(fake, 100, cache_bytes[round]);
        uint8_t got[200];
        stoker_error err = {0};
        fake->fails_at = 150;
        assert_int_equal(stk_range_read(range, 50, 150, got, &err), STOKER_ERR_IO);
        assert_string_equal(err.message, "no byte 150 today");
        fake->fails_at = UINT64_MAX;
        fake_expect(range, 50, 150);
        stk_range_close(range);
    }
}

static void test_blocks_start_empty_in_a_child(void **state)
{
    (void)state;
    struct fake_range *fake = fake_open(1000, 8);
    struct stk_range *range = open_over(fake, 100, 1000);
    fake_expect(range, 0, 10);
    pid_t child = fork();
    if (child == 0) {
        uint8_t got[10];
        bool good = stk_range_read(range, 0, 10, got, NULL) == STOKER_OK && got[9] == fake_byte(9) &&
                    fake->count == 2 && stk_range_read(range, 10, 10, got, NULL) == STOKER_OK && fake->count == 2;
        stk_range_close(range);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fake_expect(range, 20, 10);
    assert_int_equal(fake->count, 1);
    stk_range_close(range);
}

static void test_blocks_refuse_no_size(void **state)
{
    (void)state;
    struct fake_range *fake = fake_open(1000, 8);
    struct stk_range *range = NULL;
    uint64_t size = 0;
    assert_int_equal(stk_range_open_blocks(&fake->head, 0, 100, &range, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(range);
    range = open_over(fake, 100, 0);
    assert_int_equal(stk_range_size(range, &size, NULL), STOKER_OK);
    assert_int_equal(size, 1000);
    stk_range_close(range);
}

static void test_fault_blocks_without_memory(void **state)
{
    (void)state;
    static const uint64_t cache_bytes[] = {100, 5000};
    for (size_t round = 0; round < 2; round++) {
        uint64_t n = 0;
        for (bool failed = true; failed;) {
            struct fake_range *fake = fake_open(1000, 1);
            struct stk_range *range = NULL;
            uint8_t got[650];
            stoker_error err = {0};
            allocations_fail(++n);
            stoker_status status = stk_range_open_blocks(&fake->head, 100, cache_bytes[round], &range, &err);
            if (status >= 0) status = stk_range_read(range, 50, 650, got, &err);
            failed = allocations_failed();
            allocations_fail(0);
            assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
            if (range) fake_expect(range, 50, 650); /* what failed is no part of the cache */
            stk_range_close(range ? range : &fake->head);
        }
        assert_true(n > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_one_block_follows_the_reference),
        cmocka_unit_test(test_blocks_many_keep_the_last_used),
        cmocka_unit_test(test_blocks_fetch_missing_ones_at_once),
        cmocka_unit_test(test_blocks_serve_many_threads),
        cmocka_unit_test(test_blocks_wanted_by_many_are_fetched_once),
        cmocka_unit_test(test_blocks_a_failed_block_is_asked_for_again),
        cmocka_unit_test(test_blocks_start_empty_in_a_child),
        cmocka_unit_test(test_blocks_refuse_no_size),
        cmocka_unit_test(test_fault_blocks_without_memory),
    };
    return stk_run_tests(tests);
}
