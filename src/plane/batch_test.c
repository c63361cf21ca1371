/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches alone, over a core without an I/O thread: what READY may say, references, private copies.
 */
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "plane/batch.h"
#include "sys/shmem.h"

enum { SEGMENT_BYTES = 1 << 20 };

struct place { /* a core and one mapped segment */
    struct stk_client_core *core;
    int peer;
    struct stk_shm_table *table;
    struct stk_held *held;
    uint8_t *memory;
};

static void setup(struct place *place)
{
    int fds[2], fd;
    struct stk_channel *channel;
    void *memory = NULL;
    assert_int_equal(stk_unix_pair(fds, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fds[0], 1, &channel, NULL), STOKER_OK);
    assert_int_equal(stk_client_core_create(channel, 1, &place->core, NULL), STOKER_OK);
    place->peer = fds[1];
    place->held = stk_held_create();
    assert_non_null(place->held);
    assert_int_equal(stk_shm_table_create(0, &place->table, NULL), STOKER_OK);
    assert_int_equal(stk_shmem_create(NULL, SEGMENT_BYTES, &fd, NULL), STOKER_OK);
    assert_int_equal(stk_shmem_map(fd, SEGMENT_BYTES, 0, &memory, NULL), STOKER_OK);
    place->memory = memory;
    assert_int_equal(stk_shm_table_add(place->table, 9, SEGMENT_BYTES, fd, NULL), STOKER_OK);
}

static void teardown(struct place *place)
{
    stk_shm_table_destroy(place->table);
    stk_held_unref(place->held);
    stk_client_core_unref(place->core);
    stk_shmem_unmap(place->memory, SEGMENT_BYTES);
    (void)close(place->peer);
}

static struct stk_message_ready make_ready(void)
{
    struct stk_message_ready ready = {
        .region = {.slab_id = 3, .segment_id = 9, .segment_bytes = SEGMENT_BYTES, .offset = 65536, .size = 4096},
        .skeleton_offset = 1024,
        .skeleton_size = 100,
        .leaf_count = 2,
        .leaves = {{.dtype = STOKER_DTYPE_UINT8, .ndim = 1, .shape = {512}, .size = 512},
                   {.dtype = STOKER_DTYPE_FLOAT32, .ndim = 2, .shape = {2, 64}, .offset = 512, .size = 512}},
    };
    return ready;
}

static struct stoker_batch *make_batch(struct place *place)
{
    struct stk_message_ready ready = make_ready();
    struct stk_shm_mapping *mapping = NULL;
    void *address = NULL;
    struct stoker_batch *batch = calloc(1, sizeof *batch);
    assert_non_null(batch);
    assert_int_equal(
        stk_shm_table_resolve(place->table, 9, ready.region.offset, ready.region.size, &mapping, &address, NULL),
        STOKER_OK);
    stk_batch_init(batch, place->core, place->held, &ready, mapping, address);
    stk_batch_hand_out(batch);
    return batch;
}

static void test_check_refuses_what_lies_outside(void **state)
{
    (void)state;
    struct stk_message_ready ready = make_ready();
    stoker_error error;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_OK);
    ready.leaves[1].size = 4096 - 512; /* up to the last byte */
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_OK);
    ready.leaves[1].size++;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
    assert_non_null(strstr(error.message, "leaf 1"));
    ready = make_ready();
    ready.leaves[1].offset = UINT64_MAX - 255;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
    ready = make_ready();
    ready.leaves[1].offset = 8;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
    ready = make_ready();
    ready.skeleton_size = 4096 - 1023;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
    ready = make_ready();
    ready.region.slab_id = 0;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
    ready = make_ready();
    ready.leaf_count = 9;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
    ready = make_ready();
    ready.leaves[0].ndim = 9;
    assert_int_equal(stk_batch_check(&ready, &error), STOKER_ERR_PROTOCOL);
}

static void test_a6_leaves_view_the_slab(void **state)
{
    (void)state;
    struct place place;
    setup(&place);
    struct stoker_batch *batch = make_batch(&place);
    stoker_batch_info info;
    stoker_leaf leaf;
    stoker_error error;
    stoker_batch_read_info(batch, &info);
    assert_int_equal(info.leaf_count, 2);
    assert_int_equal(info.skeleton_size, 100);
    assert_int_equal(info.bytes, 4096);
    assert_int_equal(stoker_batch_leaf(batch, 1, &leaf, &error), STOKER_OK);
    memset(leaf.data, 0x5a, leaf.size);
    assert_int_equal(place.memory[65536 + 512], 0x5a);
    assert_int_equal(place.memory[65536 + 1023], 0x5a);
    assert_int_equal(place.memory[65536 + 1024], 0);
    assert_int_equal(leaf.dtype, STOKER_DTYPE_FLOAT32);
    assert_int_equal(leaf.shape[1], 64);
    assert_int_equal(stoker_batch_leaf(batch, 2, &leaf, &error), STOKER_ERR_INVALID_ARGUMENT);
    stoker_batch_unref(batch);
    struct stoker_batch *list = stk_client_core_shut(place.core);
    assert_ptr_equal(list, batch);
    stk_batch_fini(list);
    free(list);
    teardown(&place);
}

static void test_a6_last_unref_pushes_once(void **state)
{
    (void)state;
    struct place place;
    setup(&place);
    struct stoker_batch *batch = make_batch(&place);
    assert_int_equal(atomic_load(&place.held->bytes), 4096);
    stoker_batch_ref(batch);
    stoker_batch_unref(batch);
    assert_null(stk_client_core_take(place.core));
    stoker_batch_unref(batch);
    assert_int_equal(atomic_load(&place.held->bytes), 0);
    struct stoker_batch *list = stk_client_core_take(place.core);
    assert_ptr_equal(list, batch);
    assert_null(list->next);
    assert_int_equal(list->slab_id, 3);
    stk_batch_fini(list);
    free(list);
    stoker_batch_unref(NULL);
    teardown(&place);
}

static void test_a6_batch_outlives_table_and_core(void **state)
{
    (void)state;
    struct place place;
    setup(&place);
    struct stoker_batch *batch = make_batch(&place);
    memset(place.memory + 65536, 7, 4096);
    assert_null(stk_client_core_shut(place.core));
    teardown(&place); /* everything but the batch is gone */
    stoker_leaf leaf;
    assert_int_equal(stoker_batch_leaf(batch, 0, &leaf, NULL), STOKER_OK);
    assert_int_equal(((uint8_t *)leaf.data)[511], 7);
    stoker_batch_unref(batch); /* unmaps; the sanitizers see a leak otherwise */
}

static void test_a5_private_copy_keeps_bytes_and_boundaries(void **state)
{
    (void)state;
    struct place place;
    setup(&place);
    struct stoker_batch *batch = calloc(1, sizeof *batch);
    struct stk_message_ready ready = make_ready();
    struct stk_shm_mapping *mapping;
    void *address;
    uint64_t slab_id = 0;
    assert_non_null(batch);
    assert_int_equal(stk_shm_table_resolve(place.table, 9, 65536, 4096, &mapping, &address, NULL), STOKER_OK);
    stk_batch_init(batch, place.core, place.held, &ready, mapping, address);
    for (int i = 0; i < 4096; i++) place.memory[65536 + i] = (uint8_t)(i * 13);
    assert_int_equal(stk_batch_make_private(batch, &slab_id, NULL), STOKER_OK);
    assert_int_equal(slab_id, 3);
    stk_batch_hand_out(batch);
    memset(place.memory, 0, SEGMENT_BYTES);
    stoker_leaf leaf;
    stoker_batch_info info;
    stoker_batch_read_info(batch, &info);
    assert_int_equal(info.bytes, 0);
    assert_int_equal(((const uint8_t *)info.skeleton)[0], (uint8_t)(1024 * 13));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(stoker_batch_leaf(batch, i, &leaf, NULL), STOKER_OK);
        assert_int_equal((uintptr_t)leaf.data % STK_LEAF_ALIGNMENT, 0);
        for (size_t k = 0; k < leaf.size; k++) {
            assert_int_equal(((uint8_t *)leaf.data)[k], (uint8_t)((i * 512 + k) * 13));
        }
    }
    stoker_batch_unref(batch);
    struct stoker_batch *list = stk_client_core_take(place.core);
    assert_int_equal(list->slab_id, 0); /* it was returned at once */
    stk_batch_fini(list);
    free(list);
    teardown(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_refuses_what_lies_outside),
        cmocka_unit_test(test_a6_leaves_view_the_slab),
        cmocka_unit_test(test_a6_last_unref_pushes_once),
        cmocka_unit_test(test_a6_batch_outlives_table_and_core),
        cmocka_unit_test(test_a5_private_copy_keeps_bytes_and_boundaries),
    };
    return stk_run_tests(tests);
}
