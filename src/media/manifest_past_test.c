/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries by name: files and members apart, and the newest of a journal.
 */
#include "media/manifest_past.h"

#include "media/manifest_fixture.h"

static uint64_t append(struct stk_manifest_journal *journal, const char *path, const char *member)
{
    const struct stk_manifest_value value = {.path = path, .member = member, .codec = "vp9"};
    uint64_t at = 0;
    assert_int_equal(stk_manifest_journal_append(journal, &value, &at, NULL), STOKER_OK);
    return at;
}

static void test_the_newest_of_a_name_is_found(void **state)
{
    (void)state;
    struct stk_manifest_journal journal;
    struct stk_manifest_pasts pasts;
    assert_int_equal(stk_manifest_journal_open(inside("j"), true, &journal, NULL), STOKER_OK);
    (void)append(&journal, "b", NULL);
    uint64_t member = append(&journal, "b", "x");
    uint64_t a = append(&journal, "a", NULL), newest = append(&journal, "b", NULL);
    assert_int_equal(stk_manifest_journal_map(&journal, NULL), STOKER_OK);
    assert_int_equal(stk_manifest_pasts_of_journal(&journal, &pasts, NULL), STOKER_OK);
    assert_int_equal(pasts.count, 4);
    assert_int_equal(stk_manifest_pasts_find(&pasts, "a", NULL)->at, a);
    assert_int_equal(stk_manifest_pasts_find(&pasts, "b", NULL)->at, newest);
    assert_int_equal(stk_manifest_pasts_find(&pasts, "b", "x")->at, member);
    assert_null(stk_manifest_pasts_find(&pasts, "b", "y"));
    assert_null(stk_manifest_pasts_find(&pasts, "", NULL));
    assert_null(stk_manifest_pasts_find(&pasts, "c", NULL));
    stk_manifest_pasts_fini(&pasts);
    stk_manifest_journal_close(&journal, true);
}

static void test_entries_of_a_manifest_are_found(void **state)
{
    (void)state;
    static const char *const names[] = {"z.mp4", "a.mp4"};
    struct stk_manifest_pasts pasts;
    (void)fixture_build("m", names, 2, NULL);
    stoker_manifest *manifest = fixture_open("m");
    assert_int_equal(stk_manifest_pasts_of_manifest(manifest, &pasts, NULL), STOKER_OK);
    assert_int_equal(stk_manifest_pasts_find(&pasts, "z.mp4", NULL)->at, 0);
    assert_int_equal(stk_manifest_pasts_find(&pasts, "a.mp4", NULL)->at, 1);
    stk_manifest_pasts_fini(&pasts);
    stoker_manifest_close(manifest);
    assert_int_equal(stk_manifest_pasts_of_manifest(NULL, &pasts, NULL), STOKER_OK);
    assert_null(stk_manifest_pasts_find(&pasts, "a.mp4", NULL));
    stk_manifest_pasts_fini(&pasts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_of_a_name_is_found, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_entries_of_a_manifest_are_found, fixture_begin, fixture_end),
    };
    return stk_run_tests(tests);
}
