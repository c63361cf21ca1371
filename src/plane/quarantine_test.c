/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of a DataServer: shared by path, as they were at first, written behind the loop's back and never lost at
 * its end.
 */
#include "plane/quarantine.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum { NOTES = 200 };

static char folder[64], path[96];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-lists-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(path, sizeof path, "%s/q.sqlite", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    char beside[128];
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(beside, sizeof beside, "%s%s", path, suffixes[i]);
        (void)unlink(beside); /* where it was made */
    }
    return rmdir(folder);
}

static struct stk_named_list *open_list(struct stk_quarantine *quarantine)
{
    struct stk_named_list *list = NULL;
    int fd = -1;
    assert_int_equal(stk_badlist_create(path, &fd, NULL), STOKER_OK);
    assert_int_equal(stk_quarantine_list_open(quarantine, (struct stk_span){path, strlen(path)}, fd, &list, NULL),
                     STOKER_OK);
    return list;
}

static void note(struct stk_quarantine *quarantine, const struct stk_named_list *list, const char *file)
{
    const stoker_quarantine_entry entry = {.path = file, .bytes = 1, .status = STOKER_ERR_CORRUPT, .error = "cut"};
    stk_quarantine_note(quarantine, list, &entry);
}

static uint64_t count_entries(void)
{
    char digest[STOKER_DIGEST_HEX_BYTES];
    uint64_t count = 0;
    stoker_quarantine *list = NULL;
    assert_int_equal(stoker_quarantine_open(path, STOKER_QUARANTINE_READ, &list, NULL), STOKER_OK);
    assert_int_equal(stoker_quarantine_digest(list, digest, &count, NULL), STOKER_OK);
    stoker_quarantine_close(list);
    return count;
}

static void test_what_was_handed_over_is_written_before_the_end(void **state)
{
    (void)state;
    char file[32];
    struct stk_quarantine *quarantine = NULL;
    assert_int_equal(stk_quarantine_create(&quarantine, NULL), STOKER_OK);
    struct stk_named_list *list = open_list(quarantine);
    for (int i = 0; i < NOTES; i++) {
        (void)snprintf(file, sizeof file, "/%d", i);
        note(quarantine, list, file);
    }
    stk_quarantine_list_close(quarantine, list); /* its lane may go before its notes are written */
    stk_quarantine_destroy(quarantine);
    assert_int_equal(count_entries(), NOTES);
}

static void test_c1_entries_that_come_later_do_not_act(void **state)
{
    (void)state;
    struct stk_quarantine *quarantine = NULL;
    stoker_error err;
    assert_int_equal(stk_quarantine_create(&quarantine, NULL), STOKER_OK);
    struct stk_named_list *first = open_list(quarantine);
    note(quarantine, first, "/late");
    while (count_entries() == 0) (void)poll(NULL, 0, 1); /* the thread has no other event that this test could see */
    struct stk_named_list *second = open_list(quarantine);
    assert_ptr_equal(first, second);
    assert_int_equal(second->bad.count, 0);
    stk_quarantine_list_close(quarantine, first);
    stk_quarantine_list_close(quarantine, second);
    struct stk_named_list *third = open_list(quarantine); /* nobody had it: another run */
    assert_true(stk_badlist_holds(&third->bad, "/late", 1, 0));
    stk_quarantine_list_close(quarantine, third);
    stk_quarantine_list_close(quarantine, NULL);
    assert_false(stk_quarantine_take_failure(quarantine, &err));
    stk_quarantine_destroy(quarantine);
    stk_quarantine_destroy(NULL);
}

static void test_a_list_that_cannot_be_written_is_told_once(void **state)
{
    (void)state;
    struct stk_quarantine *quarantine = NULL;
    stoker_error err = {0};
    assert_int_equal(stk_quarantine_create(&quarantine, NULL), STOKER_OK);
    struct stk_named_list *list = open_list(quarantine);
    (void)unlink(path);
    assert_int_equal(mkdir(path, 0700), 0); /* something else took its place */
    note(quarantine, list, "/a");
    while (!stk_quarantine_take_failure(quarantine, &err)) (void)poll(NULL, 0, 1); /* as above */
    assert_non_null(strstr(err.message, path));
    assert_false(stk_quarantine_take_failure(quarantine, &err));
    stk_quarantine_list_close(quarantine, list);
    stk_quarantine_destroy(quarantine);
    assert_int_equal(rmdir(path), 0);
}

/* In a process that may not write the folder. True if it acted, and was told once that nothing can be added. */
static bool acts_and_tells_once(void)
{
    struct stk_quarantine *quarantine = NULL;
    stoker_error err = {0};
    if (getuid() == 0 && setuid(65534) != 0) return false;
    if (stk_quarantine_create(&quarantine, NULL) != STOKER_OK) return false;
    struct stk_named_list *list = open_list(quarantine);
    bool good = stk_badlist_holds(&list->bad, "/before", 1, 0);
    while (!stk_quarantine_take_failure(quarantine, &err)) (void)poll(NULL, 0, 1); /* as above; no file failed yet */
    good &= strstr(err.message, "nothing can be added") && strstr(err.message, path);
    for (int i = 0; i < 3; i++) {
        note(quarantine, list, "/a");
        good &=
            !stk_quarantine_take_failure(quarantine, &err); /* of the notes before, whether they were tried or not */
    }
    stk_quarantine_list_close(quarantine, list);
    stk_quarantine_destroy(quarantine);
    return good;
}

static void test_a_list_that_may_only_be_read_acts_and_is_told_once(void **state)
{
    (void)state;
    struct stk_quarantine *quarantine = NULL;
    int status = -1;
    assert_int_equal(stk_quarantine_create(&quarantine, NULL), STOKER_OK);
    note(quarantine, open_list(quarantine), "/before");
    stk_quarantine_destroy(quarantine);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(acts_and_tells_once() ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(status, 0);
    assert_int_equal(count_entries(), 1);
}

static void test_a_blob_that_is_none_is_refused(void **state)
{
    (void)state;
    struct stk_quarantine *quarantine = NULL;
    struct stk_named_list *list = NULL;
    assert_int_equal(stk_quarantine_create(&quarantine, NULL), STOKER_OK);
    const struct stk_span name = {path, strlen(path)};
    assert_int_equal(stk_quarantine_list_open(quarantine, name, dup(STDIN_FILENO), &list, NULL), STOKER_ERR_MISMATCH);
    assert_int_not_equal(stk_quarantine_list_open(quarantine, name, -1, &list, NULL), STOKER_OK);
    assert_null(list);
    stk_quarantine_destroy(quarantine);
}

int main(void)
{
#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(test_what_was_handed_over_is_written_before_the_end),
        FOLDER_TEST(test_c1_entries_that_come_later_do_not_act),
        FOLDER_TEST(test_a_list_that_cannot_be_written_is_told_once),
        FOLDER_TEST(test_a_list_that_may_only_be_read_acts_and_is_told_once),
        FOLDER_TEST(test_a_blob_that_is_none_is_refused),
    };
    return stk_run_tests(tests);
}
