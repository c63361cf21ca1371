/* SPDX-License-Identifier: Apache-2.0
 *
 * Which records reach the sink, and in what form.
 */
#include "obs/log.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/unit.h"

struct seen {
    int records;
    stoker_log_level level;
    char id[64];
    char text[4096];
};

static void remember(void *user, stoker_log_level level, const char *id, const char *text)
{
    struct seen *seen = user;
    seen->records++;
    seen->level = level;
    (void)snprintf(seen->id, sizeof seen->id, "%s", id);
    (void)snprintf(seen->text, sizeof seen->text, "%s", text);
}

static void test_log_passes_level_id_and_text(void **state)
{
    (void)state;
    struct seen seen = {0};
    const struct stk_log log = {remember, &seen, STOKER_LOG_WARN};
    stk_log(&log, STOKER_LOG_WARN, "worker_replaced", "worker %d ended with %s", 3, "signal 9");
    assert_int_equal(seen.records, 1);
    assert_int_equal(seen.level, STOKER_LOG_WARN);
    assert_string_equal(seen.id, "worker_replaced");
    assert_string_equal(seen.text, "worker 3 ended with signal 9");
}

static void test_log_drops_records_above_its_level(void **state)
{
    (void)state;
    struct seen seen = {0};
    const struct stk_log log = {remember, &seen, STOKER_LOG_WARN};
    stk_log(&log, STOKER_LOG_INFO, "quiet", "no");
    stk_log(&log, STOKER_LOG_DEBUG, "quiet", "no");
    assert_int_equal(seen.records, 0);
    stk_log(&log, STOKER_LOG_ERROR, "loud", "yes");
    assert_int_equal(seen.records, 1);
}

static void test_log_without_sink_is_silent(void **state)
{
    (void)state;
    const struct stk_log log = {NULL, NULL, STOKER_LOG_DEBUG};
    stk_log(&log, STOKER_LOG_ERROR, "nowhere", "x");
    stk_log(NULL, STOKER_LOG_ERROR, "nowhere", "x");
}

static void test_log_cuts_and_cleans_text(void **state)
{
    (void)state;
    struct seen seen = {0};
    const struct stk_log log = {remember, &seen, STOKER_LOG_DEBUG};
    char big[3000];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    stk_log(&log, STOKER_LOG_INFO, "big", "a\nb\x1b[0m\x7f %s", big);
    assert_int_equal(strlen(seen.text), 1023);
    assert_memory_equal(seen.text, "a?b?[0m? y", 10);
}

static void test_log_keeps_utf8(void **state)
{
    (void)state;
    struct seen seen = {0};
    const struct stk_log log = {remember, &seen, STOKER_LOG_DEBUG};
    stk_log(&log, STOKER_LOG_INFO, "text", "%s", "\xc3\xa9t\xc3\xa9.mp4");
    assert_string_equal(seen.text, "\xc3\xa9t\xc3\xa9.mp4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_passes_level_id_and_text), cmocka_unit_test(test_log_drops_records_above_its_level),
        cmocka_unit_test(test_log_without_sink_is_silent),   cmocka_unit_test(test_log_cuts_and_cleans_text),
        cmocka_unit_test(test_log_keeps_utf8),
    };
    return stk_run_tests(tests);
}
