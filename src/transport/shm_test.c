/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments that come and go: what is mapped, for how long, and what a wrong region gives.
 */
#include "transport/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sys/shmem.h"
#include "sys/thread.h"
#include "tests/support/unit.h"

#define SEGMENT_BYTES 8192u

static int new_segment(void)
{
    int fd = -1;
    assert_int_equal(stk_shmem_create(NULL, SEGMENT_BYTES, &fd, NULL), STOKER_OK);
    return fd;
}

static struct stk_shm_table *new_table(void)
{
    struct stk_shm_table *table = NULL;
    assert_int_equal(stk_shm_table_create(1, &table, NULL), STOKER_OK);
    return table;
}

static bool is_mapped(const void *address) { return msync((void *)(uintptr_t)address, SEGMENT_BYTES, MS_ASYNC) == 0; }

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static void test_two_tables_see_the_same_bytes(void **state)
{
    (void)state;
    struct stk_shm_table *writer = new_table(), *reader = new_table();
    struct stk_shm_mapping *wm, *rm;
    void *from, *to;
    int fd = new_segment();
    int again = dup(fd);
    assert_int_equal(stk_shm_table_add(writer, 7, SEGMENT_BYTES, fd, NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_add(reader, 7, SEGMENT_BYTES, again, NULL), STOKER_OK);
    assert_false(is_open(fd));
    assert_false(is_open(again));
    assert_int_equal(stk_shm_table_resolve(writer, 7, 4096, 100, &wm, &from, NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_resolve(reader, 7, 4090, 106, &rm, &to, NULL), STOKER_OK);
    memset(from, 0x5a, 100);
    assert_int_equal(((uint8_t *)to)[5], 0);
    assert_int_equal(((uint8_t *)to)[6], 0x5a);
    stk_shm_mapping_unref(wm);
    stk_shm_mapping_unref(rm);
    stk_shm_table_destroy(writer);
    stk_shm_table_destroy(reader);
}

static void test_memory_lives_until_the_last_reference(void **state)
{
    (void)state;
    struct stk_shm_table *table = new_table();
    struct stk_shm_mapping *a, *b;
    void *first, *second;
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_resolve(table, 1, 0, SEGMENT_BYTES, &a, &first, NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_resolve(table, 1, 0, 1, &b, &second, NULL), STOKER_OK);
    assert_ptr_equal(first, second);
    stk_shm_table_remove(table, 1);
    stoker_error err = {0};
    assert_int_equal(stk_shm_table_resolve(table, 1, 0, 1, &b, &second, &err), STOKER_ERR_PROTOCOL);
    assert_string_equal(err.message, "segment 1 is not known");
    stk_shm_mapping_unref(a);
    assert_true(is_mapped(first));
    stk_shm_mapping_unref(b);
    assert_false(is_mapped(first));
    stk_shm_table_destroy(table);
}

static void test_references_outlive_the_table(void **state)
{
    (void)state;
    struct stk_shm_table *table = new_table();
    struct stk_shm_mapping *held, *other;
    void *address, *gone;
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_add(table, 2, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_resolve(table, 1, 0, 8, &held, &address, NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_resolve(table, 2, 0, 8, &other, &gone, NULL), STOKER_OK);
    stk_shm_mapping_unref(other);
    stk_shm_table_destroy(table);
    assert_false(is_mapped(gone));
    memcpy(address, "still it", 8);
    stk_shm_mapping_ref(held);
    stk_shm_mapping_unref(held);
    assert_true(is_mapped(address));
    stk_shm_mapping_unref(held);
    assert_false(is_mapped(address));
}

static void test_wrong_regions_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, size;
    } outside[] = {
        {0, SEGMENT_BYTES + 1}, {SEGMENT_BYTES, 1}, {1, SEGMENT_BYTES},
        {UINT64_MAX, 2},        {2, UINT64_MAX},    {UINT64_MAX, UINT64_MAX},
    };
    struct stk_shm_table *table = new_table();
    struct stk_shm_mapping *mapping = NULL;
    void *address = NULL;
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        stoker_error err = {0};
        assert_int_equal(stk_shm_table_resolve(table, 1, outside[i].offset, outside[i].size, &mapping, &address, &err),
                         STOKER_ERR_PROTOCOL);
        assert_non_null(strstr(err.message, "outside segment 1 of 8192 bytes"));
        assert_null(mapping);
        assert_null(address);
    }
    assert_int_equal(stk_shm_table_resolve(table, 1, SEGMENT_BYTES, 0, &mapping, &address, NULL), STOKER_OK);
    stk_shm_mapping_unref(mapping);
    stk_shm_table_destroy(table);
}

static void test_add_takes_the_descriptor_even_on_failure(void **state)
{
    (void)state;
    struct stk_shm_table *table = new_table();
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);

    stoker_error err = {0};
    int twice = new_segment();
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, twice, &err), STOKER_ERR_PROTOCOL);
    assert_string_equal(err.message, "segment 1 was sent twice");
    assert_false(is_open(twice));

    int larger = new_segment();
    assert_int_equal(stk_shm_table_add(table, 2, 2 * SEGMENT_BYTES, larger, &err), STOKER_ERR_MISMATCH);
    assert_string_equal(err.context, "segment 2");
    assert_false(is_open(larger));

    int empty = new_segment();
    assert_int_equal(stk_shm_table_add(table, 3, 0, empty, &err), STOKER_ERR_PROTOCOL);
    assert_false(is_open(empty));
    stk_shm_table_destroy(table);
}

/* A process without room for a mapping (ulimit -v) gets it when there is some; the segment is not lost until then. */
static void test_segment_without_room_is_mapped_when_there_is_some(void **state)
{
    (void)state;
#ifdef STK_SANITIZED
    STK_SKIP("the sanitizer's shadow memory passes any limit");
#endif
    struct stk_shm_table *table = new_table();
    struct stk_shm_mapping *mapping;
    void *address;
    struct rlimit before, none;
    stoker_error err = {0};
    int fd = new_segment(), forgotten = new_segment();
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, fd, &err), STOKER_OK);
    assert_int_equal(stk_shm_table_add(table, 2, SEGMENT_BYTES, forgotten, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    assert_int_equal(stk_shm_table_resolve(table, 1, 0, 8, &mapping, &address, &err), STOKER_ERR_NO_MEMORY);
    assert_string_equal(err.context, "segment 1");
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(is_open(fd));
    assert_int_equal(stk_shm_table_resolve(table, 1, 0, 8, &mapping, &address, NULL), STOKER_OK);
    assert_false(is_open(fd));
    memset(address, 1, 8);
    stk_shm_mapping_unref(mapping);
    stk_shm_table_remove(table, 2);
    assert_false(is_open(forgotten));
    stk_shm_table_destroy(table);
}

static void test_many_segments_in_any_order(void **state)
{
    (void)state;
    enum { MANY = 101 };
    struct stk_shm_table *table = new_table();
    struct stk_shm_mapping *mapping;
    void *address;
    for (uint64_t i = 0; i < MANY; i++) { /* 37 is prime to 101: every id once */
        uint64_t id = i * 37 % MANY;
        assert_int_equal(stk_shm_table_add(table, id, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);
        assert_int_equal(stk_shm_table_resolve(table, id, 0, 8, &mapping, &address, NULL), STOKER_OK);
        memcpy(address, &id, sizeof id);
        stk_shm_mapping_unref(mapping);
    }
    stk_shm_table_remove(table, MANY); /* unknown: ignored */
    for (uint64_t id = 0; id < MANY; id += 2) stk_shm_table_remove(table, id);
    for (uint64_t id = 0; id < MANY; id++) {
        stoker_status expected = id % 2 ? STOKER_OK : STOKER_ERR_PROTOCOL;
        assert_int_equal(stk_shm_table_resolve(table, id, 0, 8, &mapping, &address, NULL), expected);
        if (expected != STOKER_OK) continue;
        assert_memory_equal(address, &id, sizeof id);
        stk_shm_mapping_unref(mapping);
    }
    stk_shm_table_destroy(table);
}

static void write_and_drop(void *argument)
{
    struct stk_shm_mapping **mapping = argument;
    for (int i = 0; i < 10000; i++) {
        stk_shm_mapping_ref(*mapping);
        stk_shm_mapping_unref(*mapping);
    }
    stk_shm_mapping_unref(*mapping);
}

/* Rule A6: views are dropped on any thread, while the owner forgets the segment. */
static void test_references_are_dropped_on_any_thread(void **state)
{
    (void)state;
    struct stk_shm_table *table = new_table();
    struct stk_shm_mapping *mapping;
    struct stk_thread *threads[3];
    void *address;
    assert_int_equal(stk_shm_table_add(table, 1, SEGMENT_BYTES, new_segment(), NULL), STOKER_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stk_shm_table_resolve(table, 1, 0, 8, &mapping, &address, NULL), STOKER_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stk_thread_start("drop", write_and_drop, &mapping, &threads[i], NULL), STOKER_OK);
    stk_shm_table_remove(table, 1);
    for (int i = 0; i < 3; i++) stk_thread_join(threads[i]);
    assert_false(is_mapped(address));
    stk_shm_table_destroy(table);
}

static void test_nothing_is_allowed_where_it_is_said(void **state)
{
    (void)state;
    stk_shm_table_destroy(NULL);
    stk_shm_mapping_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_tables_see_the_same_bytes),
        cmocka_unit_test(test_memory_lives_until_the_last_reference),
        cmocka_unit_test(test_references_outlive_the_table),
        cmocka_unit_test(test_wrong_regions_are_refused),
        cmocka_unit_test(test_add_takes_the_descriptor_even_on_failure),
        cmocka_unit_test(test_segment_without_room_is_mapped_when_there_is_some),
        cmocka_unit_test(test_many_segments_in_any_order),
        cmocka_unit_test(test_references_are_dropped_on_any_thread),
        cmocka_unit_test(test_nothing_is_allowed_where_it_is_said),
    };
    return stk_run_tests(tests);
}
