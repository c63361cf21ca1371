/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of bad files: what an entry is, many processes at once, and files that are no list.
 */
#include <stoker/quarantine.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum { WRITERS = 6, ENTRIES_EACH = 20 };

static char folder[64], path[128];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-quarantine-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(path, sizeof path, "%s/q.sqlite", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    char beside[160];
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(beside, sizeof beside, "%s%s", path, suffixes[i]);
        (void)unlink(beside); /* where it was made */
    }
    return rmdir(folder);
}

static stoker_quarantine *open_list(stoker_quarantine_mode mode)
{
    stoker_quarantine *list = NULL;
    stoker_error err = {0};
    stoker_status status = stoker_quarantine_open(path, mode, &list, &err);
    if (status != STOKER_OK) print_error("%s\n", err.message);
    assert_int_equal(status, STOKER_OK);
    return list;
}

static void add(stoker_quarantine *list, const char *file, uint64_t bytes, int64_t mtime_ns, const char *error)
{
    const stoker_quarantine_entry entry = {
        .path = file, .bytes = bytes, .mtime_ns = mtime_ns, .status = STOKER_ERR_CORRUPT, .error = error};
    assert_int_equal(stoker_quarantine_add(list, &entry, 1, NULL), STOKER_OK);
}

struct seen {
    uint64_t entries, failures;
    char text[1024];
};

static stoker_status note(void *user, const stoker_quarantine_entry *entry, stoker_error *err)
{
    (void)err;
    struct seen *seen = user;
    seen->entries++;
    seen->failures += entry->count;
    size_t used = strlen(seen->text);
    (void)snprintf(seen->text + used, sizeof seen->text - used, "%s %llu %lld %s '%s' %llu\n", entry->path,
                   (unsigned long long)entry->bytes, (long long)entry->mtime_ns, stoker_status_name(entry->status),
                   entry->error, (unsigned long long)entry->count);
    assert_true(entry->first_seen_s > 1600000000);
    assert_true(entry->last_seen_s >= entry->first_seen_s);
    return STOKER_OK;
}

static struct seen walk(stoker_quarantine *list)
{
    struct seen seen = {0};
    assert_int_equal(stoker_quarantine_walk(list, note, &seen, NULL), STOKER_OK);
    return seen;
}

static void test_an_entry_is_one_version_of_a_file(void **state)
{
    (void)state;
    stoker_quarantine *list = open_list(STOKER_QUARANTINE_WRITE);
    add(list, "/b.mp4", 10, 5, "no frames");
    add(list, "/a.mp4", 7, -1, "cut");
    add(list, "/b.mp4", 10, 5, "no key frame"); /* once more */
    add(list, "/b.mp4", 11, 5, "still bad");    /* repaired, or so they said */
    struct seen seen = walk(list);
    assert_string_equal(seen.text, "/a.mp4 7 -1 CORRUPT 'cut' 1\n/b.mp4 10 5 CORRUPT 'no key frame' 2\n"
                                   "/b.mp4 11 5 CORRUPT 'still bad' 1\n");
    stoker_quarantine_close(list);
    list = open_list(STOKER_QUARANTINE_READ); /* it outlives who wrote it */
    assert_int_equal(walk(list).entries, 3);
    const stoker_quarantine_entry entry = {.path = "/c", .status = STOKER_ERR_CORRUPT};
    assert_int_equal(stoker_quarantine_add(list, &entry, 1, NULL), STOKER_ERR_INVALID_ARGUMENT);
    stoker_quarantine_close(list);
}

static void test_c1_digest_is_of_what_is_left_out(void **state)
{
    (void)state;
    char first[STOKER_DIGEST_HEX_BYTES], second[STOKER_DIGEST_HEX_BYTES];
    uint64_t count = 0;
    stoker_quarantine *list = open_list(STOKER_QUARANTINE_WRITE);
    assert_int_equal(stoker_quarantine_digest(list, first, &count, NULL), STOKER_OK);
    assert_int_equal(count, 0);
    /* SHA-256 of nothing */
    assert_string_equal(first, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    add(list, "/a", 1, 2, "one");
    assert_int_equal(stoker_quarantine_digest(list, first, &count, NULL), STOKER_OK);
    assert_int_equal(count, 1);
    add(list, "/a", 1, 2, "another reason");
    assert_int_equal(stoker_quarantine_digest(list, second, &count, NULL), STOKER_OK);
    assert_string_equal(first, second);
    add(list, "/a", 1, 3, "one");
    assert_int_equal(stoker_quarantine_digest(list, second, &count, NULL), STOKER_OK);
    assert_string_not_equal(first, second);
    stoker_quarantine_close(list);
}

static void test_clear_removes_one_path_or_all(void **state)
{
    (void)state;
    uint64_t removed = 9;
    stoker_quarantine *list = open_list(STOKER_QUARANTINE_WRITE);
    add(list, "/a", 1, 1, "x");
    add(list, "/a", 2, 1, "x");
    add(list, "/b", 1, 1, "x");
    assert_int_equal(stoker_quarantine_clear(list, "/a", &removed, NULL), STOKER_OK);
    assert_int_equal(removed, 2);
    assert_int_equal(walk(list).entries, 1);
    assert_int_equal(stoker_quarantine_clear(list, "/nowhere", &removed, NULL), STOKER_OK);
    assert_int_equal(removed, 0);
    assert_int_equal(stoker_quarantine_clear(list, NULL, &removed, NULL), STOKER_OK);
    assert_int_equal(removed, 1);
    stoker_quarantine_close(list);
}

static void write_from(int writer)
{
    char name[32];
    stoker_quarantine *list = NULL;
    stoker_error err = {0};
    if (stoker_quarantine_open(path, STOKER_QUARANTINE_WRITE, &list, &err) != STOKER_OK) {
        print_error("%s\n", err.message);
        _exit(1);
    }
    for (int i = 0; i < ENTRIES_EACH; i++) { /* half of the files are everybody's */
        (void)snprintf(name, sizeof name, "/%d/%d", i % 2 ? writer : 99, i);
        const stoker_quarantine_entry entry = {.path = name, .status = STOKER_ERR_CORRUPT, .error = "x"};
        if (stoker_quarantine_add(list, &entry, 1, NULL) != STOKER_OK) _exit(2);
    }
    stoker_quarantine_close(list);
    _exit(0);
}

/* Ranks and jobs that begin at the same moment make one list, and no failure is lost. */
static void test_many_processes_make_and_fill_one_list(void **state)
{
    (void)state;
    pid_t writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0) write_from(i);
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
        assert_int_equal(status, 0);
    }
    stoker_quarantine *list = open_list(STOKER_QUARANTINE_READ);
    struct seen seen = walk(list);
    assert_int_equal(seen.failures, WRITERS * ENTRIES_EACH);
    assert_int_equal(seen.entries, WRITERS * ENTRIES_EACH / 2 + ENTRIES_EACH / 2);
    stoker_quarantine_close(list);
}

static void expect_refused(stoker_quarantine_mode mode, stoker_status status, const char *text)
{
    stoker_quarantine *list = NULL;
    stoker_error err = {0};
    assert_int_equal(stoker_quarantine_open(path, mode, &list, &err), status);
    assert_non_null(strstr(err.message, text));
    assert_null(list);
}

static void write_file(const void *bytes, size_t size)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static void test_what_is_no_list_is_refused_and_left_alone(void **state)
{
    (void)state;
    static const char words[] =
        "these are the words of somebody's notes, long enough to be looked at as a database file";
    expect_refused(STOKER_QUARANTINE_READ, STOKER_ERR_NOT_FOUND, "cannot open the quarantine list");
    write_file("", 0);
    expect_refused(STOKER_QUARANTINE_READ, STOKER_ERR_CORRUPT, "it is empty");
    write_file(words, sizeof words);
    expect_refused(STOKER_QUARANTINE_READ, STOKER_ERR_CORRUPT, "no SQLite file");
    expect_refused(STOKER_QUARANTINE_WRITE, STOKER_ERR_CORRUPT, "no SQLite file");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, sizeof words);
    assert_int_equal(unlink(path), 0);
    /* Another application's number at its place in the header of a database that holds nothing else. */
    stoker_quarantine_close(open_list(STOKER_QUARANTINE_WRITE));
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 68, SEEK_SET), 0);
    assert_int_equal(fwrite("abcd", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    expect_refused(STOKER_QUARANTINE_WRITE, STOKER_ERR_CORRUPT, "application id");
}

static void test_a_list_of_a_later_version_is_refused(void **state)
{
    (void)state;
    stoker_quarantine_close(open_list(STOKER_QUARANTINE_WRITE));
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 60, SEEK_SET), 0); /* user_version, big-endian */
    assert_int_equal(fwrite("\0\0\0\2", 1, 4, file), 4);
    assert_int_equal(fclose(file), 0);
    expect_refused(STOKER_QUARANTINE_READ, STOKER_ERR_UNSUPPORTED, "version 2, expected 1");
}

/* In another process, of a user who may not write the list: 0 if all is as it should be. */
static int read_only_child(bool with_log)
{
    stoker_quarantine *list = NULL;
    stoker_error err = {0};
    if (getuid() == 0 && setuid(65534) != 0) return 2;
    if (stoker_quarantine_open(path, STOKER_QUARANTINE_WRITE, &list, &err) != STOKER_ERR_IO) return 3;
    if (!strstr(err.message, "nothing can be added to or removed from the quarantine list")) return 4;
    stoker_status status = stoker_quarantine_open(path, STOKER_QUARANTINE_READ, &list, &err);
    if (with_log) return status == STOKER_ERR_IO && strstr(err.message, "is not merged into it") ? 0 : 5;
    if (status != STOKER_OK) return 6;
    struct seen seen = walk(list);
    stoker_quarantine_close(list);
    return seen.entries == 1 && strcmp(seen.text, "/a 1 2 CORRUPT 'x' 1\n") == 0 ? 0 : 7;
}

static void expect_read_only(mode_t file_mode, bool with_log)
{
    int status = -1;
    assert_int_equal(chmod(path, file_mode), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(read_only_child(with_log));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(WIFEXITED(status));
}

static void test_a_list_in_a_folder_that_may_only_be_read_is_read(void **state)
{
    (void)state;
    size_t used = strlen(folder);
    (void)snprintf(path + used, sizeof path - used, "/100%%?a=b#q"); /* no part of a URI means anything in a name */
    stoker_quarantine *list = open_list(STOKER_QUARANTINE_WRITE);
    add(list, "/a", 1, 2, "x");
    stoker_quarantine_close(list);
    expect_read_only(0444, false);
    expect_read_only(0666, false);
    /* What a writer that died left beside it would be missed. */
    char beside[160];
    (void)snprintf(beside, sizeof beside, "%s-wal", path);
    FILE *file = fopen(beside, "w");
    assert_non_null(file);
    assert_int_equal(fwrite("log", 1, 3, file), 3);
    assert_int_equal(fclose(file), 0);
    expect_read_only(0444, true);
}

static void test_arguments_are_checked(void **state)
{
    (void)state;
    stoker_quarantine *list = NULL;
    assert_int_equal(stoker_quarantine_open("", STOKER_QUARANTINE_WRITE, &list, NULL), STOKER_ERR_INVALID_ARGUMENT);
    list = open_list(STOKER_QUARANTINE_WRITE);
    const stoker_quarantine_entry entries[2] = {{.path = "/a", .status = STOKER_ERR_CORRUPT},
                                                {.path = "", .status = STOKER_ERR_CORRUPT}};
    assert_int_equal(stoker_quarantine_add(list, entries, 2, NULL), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(walk(list).entries, 0); /* all or none */
    stoker_quarantine_close(list);
    stoker_quarantine_close(NULL);
}

int main(void)
{
#define LIST_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        LIST_TEST(test_an_entry_is_one_version_of_a_file),
        LIST_TEST(test_c1_digest_is_of_what_is_left_out),
        LIST_TEST(test_clear_removes_one_path_or_all),
        LIST_TEST(test_many_processes_make_and_fill_one_list),
        LIST_TEST(test_what_is_no_list_is_refused_and_left_alone),
        LIST_TEST(test_a_list_of_a_later_version_is_refused),
        LIST_TEST(test_a_list_in_a_folder_that_may_only_be_read_is_read),
        LIST_TEST(test_arguments_are_checked),
    };
    return stk_run_tests(tests);
}
