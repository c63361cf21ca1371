/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages ahead of their first use.
 */
#include "sys/ahead.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/filemap.h"
#include "tests/support/unit.h"

#define SIZE ((size_t)32 << 20)

static size_t resident(const void *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    static unsigned char flags[SIZE / 4096];
    assert_true(size / page <= sizeof flags);
    assert_int_equal(mincore((void *)(uintptr_t)data, size, flags), 0);
    for (size_t i = 0; i < size / page; i++) count += flags[i] & 1;
    return count * page;
}

/* Nobody touches the memory: whatever is there, the thread has made. */
static void test_pages_are_made(void **state)
{
    (void)state;
    struct stk_ahead_area areas[2] = {{NULL, SIZE}, {NULL, SIZE / 4}};
    for (int i = 0; i < 2; i++) assert_int_equal(stk_filemap_memory(areas[i].size, &areas[i].data, NULL), STOKER_OK);
    struct stk_ahead *ahead = NULL;
    assert_int_equal(stk_ahead_start(areas, 2, &ahead, NULL), STOKER_OK);
    if (!ahead) STK_SKIP("one CPU");
    uint64_t until_ns = stk_clock_now_ns() + 20 * UINT64_C(1000000000);
    while ((resident(areas[0].data, areas[0].size) < SIZE || resident(areas[1].data, areas[1].size) < SIZE / 4) &&
           stk_clock_now_ns() < until_ns)
        (void)sched_yield();
    stk_ahead_stop(ahead);
    assert_int_equal(resident(areas[0].data, areas[0].size), SIZE);
    assert_int_equal(resident(areas[1].data, areas[1].size), SIZE / 4);
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < areas[i].size; at += 4096) assert_int_equal(((const uint8_t *)areas[i].data)[at], 0);
        stk_filemap_close(areas[i].data, areas[i].size);
    }
}

/* What is written while pages are made stays; ending it at any time is fine. */
static void test_contents_are_kept(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct stk_ahead_area area = {NULL, SIZE};
        assert_int_equal(stk_filemap_memory(SIZE, &area.data, NULL), STOKER_OK);
        struct stk_ahead *ahead = NULL;
        assert_int_equal(stk_ahead_start(&area, 1, &ahead, NULL), STOKER_OK);
        uint64_t *word = area.data;
        size_t count = SIZE / 8 / 20 * (size_t)(round + 1);
        for (size_t i = 0; i < count; i++) word[i] = i ^ (uint64_t)round;
        stk_ahead_stop(ahead);
        for (size_t i = 0; i < count; i++)
            if (word[i] != (i ^ (uint64_t)round)) fail_msg("word %zu was lost", i);
        stk_filemap_close(area.data, SIZE);
    }
}

/* Pages of a file are in the cache of the system, and its bytes are what they were. */
static void test_pages_of_files_are_made(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    void *data = NULL;
    assert_int_equal(stk_filemap_create(fileno(file), SIZE, &data, NULL), STOKER_OK);
    memset((uint8_t *)data + SIZE / 2, 7, 5000);
    const struct stk_ahead_file files[2] = {{fileno(file), SIZE / 2 + 1000, SIZE}, {fileno(file), 0, SIZE / 2 + 1000}};
    struct stk_ahead *ahead = NULL;
    assert_int_equal(stk_ahead_start_files(files, 2, &ahead, NULL), STOKER_OK);
    if (!ahead) STK_SKIP("one CPU");
    uint64_t until_ns = stk_clock_now_ns() + 20 * UINT64_C(1000000000);
    while (resident(data, SIZE) < SIZE && stk_clock_now_ns() < until_ns) (void)sched_yield();
    stk_ahead_stop(ahead);
    assert_int_equal(resident(data, SIZE), SIZE);
    for (size_t at = 0; at < SIZE; at += 1000)
        assert_int_equal(((const uint8_t *)data)[at], at >= SIZE / 2 && at < SIZE / 2 + 5000 ? 7 : 0);
    stk_filemap_close(data, SIZE);
    (void)fclose(file);
}

/* Not to be read, and past the end: nothing is made, and nothing is said. */
static void test_files_that_cannot_be_read_are_left_alone(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    const struct stk_ahead_file files[2] = {{fileno(file), 0, SIZE}, {-1, 0, SIZE}};
    struct stk_ahead *ahead = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stk_ahead_start_files(files + i, 1, &ahead, NULL), STOKER_OK);
        stk_ahead_stop(ahead);
    }
    (void)fclose(file);
}

static void test_little_memory_is_left_alone(void **state)
{
    (void)state;
    char room[4096];
    const struct stk_ahead_area area = {room, sizeof room};
    struct stk_ahead *ahead = (void *)room;
    assert_int_equal(stk_ahead_start(&area, 1, &ahead, NULL), STOKER_OK);
    assert_null(ahead);
    assert_int_equal(stk_ahead_start(NULL, 0, &ahead, NULL), STOKER_OK);
    assert_null(ahead);
    stk_ahead_stop(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_are_made),
        cmocka_unit_test(test_contents_are_kept),
        cmocka_unit_test(test_pages_of_files_are_made),
        cmocka_unit_test(test_files_that_cannot_be_read_are_left_alone),
        cmocka_unit_test(test_little_memory_is_left_alone),
    };
    return stk_run_tests(tests);
}
