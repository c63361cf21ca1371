/* SPDX-License-Identifier: Apache-2.0
 *
 * What sources mean: sorted folders, members of shards, and shards that cannot be read.
 */
#include "media/manifest_sources.h"

#include "media/manifest_fixture.h"
#include "store/tar_fixture.h"

static struct archive archive;

static void touch(const char *name) { fixture_write(inside(name), "x", 1); }

static struct stk_manifest_items items_of(const char *source)
{
    struct stk_manifest_items items = {NULL, 0, 0};
    stoker_error err;
    if (stk_manifest_add_source(&items, source, NULL, &err) != STOKER_OK) fail_msg("%s", err.message);
    return items;
}

static void assert_item(const struct stk_manifest_items *items, size_t index, const char *name, const char *member)
{
    assert_true(index < items->count);
    assert_string_equal(items->items[index].path, inside(name));
    if (member)
        assert_string_equal(items->items[index].member, member);
    else
        assert_null(items->items[index].member);
}

static void test_folders_are_walked_in_order_for_videos(void **state)
{
    (void)state;
    assert_int_equal(mkdir(inside("a"), 0700), 0);
    touch("a/z.webm");
    touch("a/B.MP4");
    touch("a-b.mkv");
    touch("notes.txt");
    touch(".hidden.mp4");
    assert_int_equal(symlink(fixture_folder, inside("a/loop")), 0);
    assert_int_equal(symlink(inside("a-b.mkv"), inside("link.mp4")), 0);
    struct stk_manifest_items items = items_of(fixture_folder);
    assert_int_equal(items.count, 4);
    assert_item(&items, 0, "a-b.mkv", NULL);
    assert_item(&items, 1, "a/B.MP4", NULL);
    assert_item(&items, 2, "a/z.webm", NULL);
    assert_item(&items, 3, "link.mp4", NULL);
    stk_manifest_items_fini(&items);
}

static void test_shards_are_their_members(void **state)
{
    (void)state;
    archive.size = 0;
    archive_add(&archive, "0.mp4", '0', "first");
    archive_add(&archive, "0.json", '0', "{}");
    archive_add(&archive, "1.webm", '0', "second");
    archive_end(&archive);
    archive_write(&archive, inside("s.tar"));
    touch("t.mp4");
    struct stk_manifest_items items = items_of(fixture_folder);
    assert_int_equal(items.count, 3);
    assert_item(&items, 0, "s.tar", "0.mp4");
    assert_item(&items, 1, "s.tar", "1.webm");
    assert_item(&items, 2, "t.mp4", NULL);
    assert_int_equal(items.items[1].bytes, 6);
    assert_int_equal(items.items[1].offset, 5 * 512);
    assert_true(items.items[1].mtime_ns > 0);
    stk_manifest_items_fini(&items);
}

static void test_a_shard_that_cannot_be_read_is_one_item(void **state)
{
    (void)state;
    archive.size = 0;
    archive_add(&archive, "0.mp4", '0', "first");
    archive_add(&archive, "1.mp4", '0', "second");
    archive.size -= 510;
    archive_write(&archive, inside("cut.tar"));
    struct stk_manifest_items items = items_of(inside("cut.tar"));
    assert_int_equal(items.count, 1);
    assert_item(&items, 0, "cut.tar", NULL);
    assert_int_equal(items.items[0].status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(items.items[0].error, "the archive is cut"));
    assert_int_equal(items.items[0].bytes, archive.size);
    stk_manifest_items_fini(&items);
    items = items_of(inside("absent.tar"));
    assert_int_equal(items.items[0].status, STOKER_ERR_NOT_FOUND);
    stk_manifest_items_fini(&items);
}

static void test_other_names_are_files(void **state)
{
    (void)state;
    struct stk_manifest_items items = items_of(inside("whatever.bin"));
    assert_item(&items, 0, "whatever.bin", NULL);
    stk_manifest_items_fini(&items);
    items = items_of("https://host/a.mp4?x=.tar");
    assert_string_equal(items.items[0].path, "https://host/a.mp4?x=.tar");
    stk_manifest_items_fini(&items);
    assert_true(stk_manifest_is_video("a.MpEg", 6));
    assert_false(stk_manifest_is_video(".mp4", 4));
    assert_false(stk_manifest_is_video("mp4", 3));
    assert_int_equal(stk_manifest_add_source(&items, "", NULL, NULL), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folders_are_walked_in_order_for_videos, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_shards_are_their_members, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_shard_that_cannot_be_read_is_one_item, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_other_names_are_files, fixture_begin, fixture_end),
    };
    return stk_run_tests(tests);
}
