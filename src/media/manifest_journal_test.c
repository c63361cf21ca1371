/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a build: what was appended is there after a kill at any byte, up to the last whole entry, and two
 * builds do not share one.
 */
#include "media/manifest_journal.h"

#include "media/manifest_fixture.h"

static const uint8_t table[] = {1, 2, 3, 4};

static struct stk_manifest_value value_of(const char *path, const char *error)
{
    struct stk_manifest_value value = {.path = path, .table = table, .error = error};
    value.record.table_size = error ? 0 : 4;
    value.record.status = error ? STOKER_ERR_CORRUPT : 0;
    value.codec = error ? NULL : "vp9";
    return value;
}

static struct stk_manifest_journal open_journal(bool fresh)
{
    struct stk_manifest_journal journal;
    stoker_error err;
    if (stk_manifest_journal_open(inside("j"), fresh, &journal, &err) != STOKER_OK) fail_msg("%s", err.message);
    return journal;
}

static size_t count_entries(const struct stk_manifest_journal *journal)
{
    struct stk_manifest_value value;
    size_t count = 0;
    for (uint64_t at = STK_MANIFEST_JOURNAL_FIRST; at < journal->end; count++)
        at = stk_manifest_journal_value(journal, at, &value);
    return count;
}

static void fill(struct stk_manifest_journal *journal, uint64_t places[2])
{
    const struct stk_manifest_value first = value_of("a.mp4", NULL), second = value_of("b.mp4", "broken");
    assert_int_equal(stk_manifest_journal_append(journal, &first, &places[0], NULL), STOKER_OK);
    assert_int_equal(stk_manifest_journal_append(journal, &second, &places[1], NULL), STOKER_OK);
}

static void test_entries_are_there_after_a_kill_at_any_byte(void **state)
{
    (void)state;
    uint64_t places[2];
    struct stk_manifest_value value;
    struct stk_manifest_journal journal = open_journal(false);
    fill(&journal, places);
    assert_int_equal(stk_manifest_journal_map(&journal, NULL), STOKER_OK);
    (void)stk_manifest_journal_value(&journal, places[0], &value);
    assert_string_equal(value.path, "a.mp4");
    assert_string_equal(value.codec, "vp9");
    assert_null(value.member);
    assert_memory_equal(value.table, table, 4);
    stk_manifest_journal_close(&journal, false);

    size_t size = 0;
    uint8_t *data = fixture_read(inside("j"), &size);
    for (size_t cut = 0; cut <= size; cut++) {
        fixture_write(inside("j"), data, cut);
        journal = open_journal(false);
        assert_int_equal(count_entries(&journal), cut < places[1] ? 0 : cut < size ? 1 : 2);
        uint64_t again[2];
        fill(&journal, again); /* it goes on behind what is whole */
        assert_int_equal(stk_manifest_journal_map(&journal, NULL), STOKER_OK);
        assert_int_equal(count_entries(&journal), (cut < places[1] ? 0 : cut < size ? 1 : 2) + 2);
        (void)stk_manifest_journal_value(&journal, again[1], &value);
        assert_string_equal(value.error, "broken");
        stk_manifest_journal_close(&journal, false);
    }
    for (size_t at = 0; at < size; at++) { /* what is damaged ends it */
        data[at] ^= 0x40;
        fixture_write(inside("j"), data, size);
        data[at] ^= 0x40;
        journal = open_journal(false);
        assert_int_equal(count_entries(&journal), at < places[1] ? 0 : 1);
        stk_manifest_journal_close(&journal, false);
    }
    free(data);
}

static void test_a_fresh_journal_is_empty_and_a_removed_one_gone(void **state)
{
    (void)state;
    uint64_t places[2];
    struct stk_manifest_journal journal = open_journal(false);
    fill(&journal, places);
    stk_manifest_journal_close(&journal, false);
    journal = open_journal(true);
    assert_int_equal(count_entries(&journal), 0);
    stk_manifest_journal_close(&journal, true);
    assert_int_not_equal(access(inside("j"), F_OK), 0);
    stk_manifest_journal_close(&journal, true);
    stk_manifest_journal_close(NULL, false);
}

static void test_two_builds_do_not_share_a_journal(void **state)
{
    (void)state;
    struct stk_manifest_journal journal = open_journal(false), other;
    stoker_error err;
    assert_int_equal(stk_manifest_journal_open(inside("j"), false, &other, &err), STOKER_ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "another build of this manifest runs"));
    stk_manifest_journal_close(&journal, false);
    other = open_journal(false);
    stk_manifest_journal_close(&other, true);
    assert_int_equal(stk_manifest_journal_open(inside("absent/j"), false, &other, &err), STOKER_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_entries_are_there_after_a_kill_at_any_byte, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_fresh_journal_is_empty_and_a_removed_one_gone, fixture_begin,
                                        fixture_end),
        cmocka_unit_test_setup_teardown(test_two_builds_do_not_share_a_journal, fixture_begin, fixture_end),
    };
    return stk_run_tests(tests);
}
