/* SPDX-License-Identifier: Apache-2.0
 *
 * The block cache with room for one block, and addresses, against what Megatron-LM's object storage reader did
 * (tests/golden/megatron/readers): the same ranges are asked for, the same bytes come out.
 *
 * One case differs on purpose: an empty read fetches nothing (the reference fetches a block). After it the cache is
 * brought to the state that the reference's is in.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "store/range_internal.h"
#include "store/target.h"
#include "sys/digest.h"
#include "tests/support/unit.h"

enum { OBJECT_BYTES = 2048, REQUESTS_MAX = 8 };

static json_t *golden;

static int load(void **state)
{
    (void)state;
    json_error_t error;
    golden = json_load_file(STK_GOLDEN_MEGATRON "/readers/object_storage.json", 0, &error);
    return golden ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------- the object */

struct listed {
    struct stk_range head;
    char requests[REQUESTS_MAX][64];
    size_t count;
};

static stoker_status listed_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                                 stoker_error *err)
{
    struct listed *listed = (struct listed *)range;
    (void)err;
    assert_true(listed->count < REQUESTS_MAX);
    (void)snprintf(listed->requests[listed->count++], 64, "bytes=%" PRIu64 "-%" PRIu64, offset, offset + size - 1);
    *out_got = offset >= OBJECT_BYTES ? 0 : OBJECT_BYTES - offset < size ? (size_t)(OBJECT_BYTES - offset) : size;
    for (size_t i = 0; i < *out_got; i++) ((uint8_t *)out)[i] = (uint8_t)(offset + i);
    return STOKER_OK;
}

static stoker_status listed_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    (void)range;
    (void)err;
    *out_size = OBJECT_BYTES;
    return STOKER_OK;
}

static void listed_close(struct stk_range *range) { stk_range_free(range); }

static void test_one_block_makes_the_requests_of_the_reference(void **state)
{
    (void)state;
    static const struct stk_range_backend backend = {listed_read, listed_size, NULL, listed_close, 8};
    uint64_t block_bytes = (uint64_t)json_integer_value(json_object_get(golden, "chunk_bytes"));
    struct stk_range *inner = NULL, *range = NULL;
    assert_int_equal(stk_range_create(sizeof(struct listed), &backend, "s3://bucket/some/dir/x.bin", &inner, NULL),
                     STOKER_OK);
    assert_int_equal(stk_range_open_blocks(inner, block_bytes, block_bytes, &range, NULL), STOKER_OK);
    struct listed *listed = (struct listed *)inner;
    size_t i, empty = 0;
    json_t *read;
    json_array_foreach(json_object_get(golden, "reads"), i, read)
    {
        uint64_t offset = (uint64_t)json_integer_value(json_object_get(read, "offset"));
        size_t size = 2 * (size_t)json_integer_value(json_object_get(read, "count_uint16"));
        json_t *requests = json_object_get(read, "requests");
        uint8_t got[OBJECT_BYTES];
        char digest[65];
        assert_true(json_is_null(json_object_get(read, "error")));
        listed->count = 0;
        assert_int_equal(stk_range_read(range, offset, size, got, NULL), STOKER_OK);
        stk_sha256_hex(got, size, digest);
        assert_string_equal(digest, json_string_value(json_object_get(read, "hex_sha256")));
        if (size == 0) {
            assert_int_equal(listed->count, 0);
            assert_int_equal(stk_range_read(range, offset, 1, got, NULL), STOKER_OK);
            empty++;
        }
        assert_int_equal(listed->count, json_array_size(requests));
        for (size_t k = 0; k < listed->count; k++)
            assert_string_equal(listed->requests[k],
                                json_string_value(json_object_get(json_array_get(requests, k), "range")));
    }
    assert_int_equal(i, 10); /* all of them were looked at */
    assert_int_equal(empty, 1);
    stk_range_close(range);
}

static void test_addresses_are_cut_as_the_reference_does(void **state)
{
    (void)state;
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(golden, "paths"), i, entry)
    {
        const char *url = json_string_value(json_object_get(entry, "path"));
        json_t *parts = json_object_get(entry, "bucket_key");
        char *path = NULL;
        assert_int_equal(stk_url_local_path("cache/dir", url, &path, NULL), STOKER_OK);
        assert_string_equal(path, json_string_value(json_object_get(entry, "cache_path")));
        free(path);
        if (!json_is_array(parts)) { /* msc:// is no address of S3 */
            assert_false(strncmp(url, "s3://", 5) == 0);
            continue;
        }
        const char *bucket, *key;
        size_t size;
        stk_s3_split(url, &bucket, &size, &key);
        assert_int_equal(size, json_string_length(json_array_get(parts, 0)));
        assert_memory_equal(bucket, json_string_value(json_array_get(parts, 0)), size);
        assert_string_equal(key, json_string_value(json_array_get(parts, 1)));
    }
    assert_int_equal(i, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_block_makes_the_requests_of_the_reference),
        cmocka_unit_test(test_addresses_are_cut_as_the_reference_does),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, load, unload);
}
