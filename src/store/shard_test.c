/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards of the public API: members and samples, and the life of the index file.
 */
#include <stoker/shard.h>

#include <sys/stat.h>

#include "store/tar_fixture.h"

static struct archive archive;
static char folder[64], path[96], kept[128];

static int make_shard(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-shard-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(path, sizeof path, "%s/s.tar", folder);
    (void)snprintf(kept, sizeof kept, "%s.stkx", path);
    archive.size = 0;
    archive_add(&archive, "0.jpg", '0', "picture");
    archive_add(&archive, "0.txt", '0', "caption");
    archive_add(&archive, "1.jpg", '0', "other");
    archive_end(&archive);
    archive_write(&archive, path);
    return 0;
}

static int drop_shard(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)unlink(kept);
    return rmdir(folder);
}

static stoker_shard *open_shard(stoker_shard_index index, stoker_shard_facts *facts)
{
    stoker_shard_options options = STOKER_SHARD_OPTIONS_INIT;
    stoker_shard *shard = NULL;
    stoker_error err;
    options.index = index;
    assert_int_equal(stoker_shard_open(path, &options, &shard, &err), STOKER_OK);
    stoker_shard_get_facts(shard, facts);
    return shard;
}

static void test_members_and_samples_are_read_at_random(void **state)
{
    (void)state;
    stoker_shard_facts facts;
    stoker_shard_member member;
    stoker_shard_sample sample;
    stoker_error err;
    uint64_t index = 9;
    char out[16] = "";
    stoker_shard *shard = open_shard(STOKER_SHARD_INDEX_USE, &facts);
    assert_int_equal(facts.members, 3);
    assert_int_equal(facts.samples, 2);
    assert_int_equal(facts.from_index + facts.written, 0);
    assert_int_equal(stoker_shard_find(shard, "1.jpg", &index, &err), STOKER_OK);
    assert_int_equal(stoker_shard_read(shard, index, out, &err), STOKER_OK);
    assert_string_equal(out, "other");
    assert_int_equal(stoker_shard_get_member(shard, index, &member, &err), STOKER_OK);
    assert_string_equal(member.extension, "jpg");
    assert_int_equal(member.sample, 1);
    assert_int_equal(stoker_shard_get_sample(shard, 0, &sample, &err), STOKER_OK);
    assert_int_equal(sample.member_count, 2);
    assert_int_equal(sample.key_size, 1);
    assert_memory_equal(sample.key, "0", 1);
    assert_int_equal(sample.members[1], 1);

    assert_int_equal(stoker_shard_find(shard, "2.jpg", &index, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no member '2.jpg'"));
    assert_int_equal(stoker_shard_get_member(shard, 3, &member, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_string_equal(err.message, "member 3 is asked for, the shard has 3");
    assert_int_equal(stoker_shard_get_sample(shard, 2, &sample, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_shard_read(shard, 3, out, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_shard_close(shard);
}

static void test_the_index_file_is_written_used_and_renewed(void **state)
{
    (void)state;
    stoker_shard_facts facts;
    uint64_t index;
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_WRITE, &facts));
    assert_int_equal(facts.written, 1);
    stoker_shard *shard = open_shard(STOKER_SHARD_INDEX_USE, &facts);
    assert_int_equal(facts.from_index, 1);
    assert_int_equal(facts.samples, 2);
    assert_int_equal(stoker_shard_find(shard, "0.txt", &index, NULL), STOKER_OK);
    stoker_shard_close(shard);
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_NONE, &facts));
    assert_int_equal(facts.from_index, 0);

    archive.size -= 1024;
    archive_add(&archive, "2.jpg", '0', "more");
    archive_end(&archive);
    archive_write(&archive, path);
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_USE, &facts)); /* of another state: passed over */
    assert_int_equal(facts.from_index, 0);
    assert_int_equal(facts.members, 4);
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_WRITE, &facts));
    assert_int_equal(facts.written, 1);
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_USE, &facts));
    assert_int_equal(facts.from_index, 1);

    assert_int_equal(truncate(kept, 70), 0); /* damaged: passed over */
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_USE, &facts));
    assert_int_equal(facts.from_index, 0);
}

static void test_an_index_that_cannot_be_written_is_no_fault(void **state)
{
    (void)state;
    stoker_shard_facts facts;
    assert_int_equal(mkdir(kept, 0700), 0);
    stoker_shard_close(open_shard(STOKER_SHARD_INDEX_WRITE, &facts));
    assert_int_equal(facts.written, 0);
    assert_int_equal(facts.members, 3);
    assert_int_equal(rmdir(kept), 0);
}

static void test_an_index_with_dropped_members_is_not_used_where_they_are_errors(void **state)
{
    (void)state;
    stoker_shard_options options = STOKER_SHARD_OPTIONS_INIT;
    stoker_shard_facts facts;
    stoker_shard *shard = NULL;
    stoker_error err;
    archive.size -= 1024;
    archive_add(&archive, "0.jpg", '0', "again");
    archive_end(&archive);
    archive_write(&archive, path);
    options.duplicates = STOKER_SHARD_DUPLICATES_LAST;
    options.index = STOKER_SHARD_INDEX_WRITE;
    assert_int_equal(stoker_shard_open(path, &options, &shard, &err), STOKER_OK);
    stoker_shard_get_facts(shard, &facts);
    assert_int_equal(facts.dropped, 1);
    stoker_shard_close(shard);
    options.duplicates = STOKER_SHARD_DUPLICATES_ERROR;
    assert_int_equal(stoker_shard_open(path, &options, &shard, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "'0.jpg' stands twice"));
    assert_string_equal(err.context, path);
}

static void test_arguments_are_checked(void **state)
{
    (void)state;
    stoker_shard *shard = NULL;
    stoker_error err;
    stoker_shard_options options = STOKER_SHARD_OPTIONS_INIT;
    assert_int_equal(stoker_shard_open(NULL, NULL, &shard, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.struct_size = 4;
    assert_int_equal(stoker_shard_open(path, &options, &shard, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.struct_size = sizeof options;
    options.index = (stoker_shard_index)3;
    assert_int_equal(stoker_shard_open(path, &options, &shard, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_shard_open("/nonexistent.tar", NULL, &shard, &err), STOKER_ERR_NOT_FOUND);
    assert_null(shard);
    stoker_shard_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_members_and_samples_are_read_at_random, make_shard, drop_shard),
        cmocka_unit_test_setup_teardown(test_the_index_file_is_written_used_and_renewed, make_shard, drop_shard),
        cmocka_unit_test_setup_teardown(test_an_index_that_cannot_be_written_is_no_fault, make_shard, drop_shard),
        cmocka_unit_test_setup_teardown(test_an_index_with_dropped_members_is_not_used_where_they_are_errors,
                                        make_shard, drop_shard),
        cmocka_unit_test_setup_teardown(test_arguments_are_checked, make_shard, drop_shard),
    };
    return stk_run_tests(tests);
}
