/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of one test's own, for programs of unit tests that write files side by side.
 */
#ifndef STK_TESTS_FOLDER_H
#define STK_TESTS_FOLDER_H

#include "tests/support/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];

/* cmocka's setup and teardown. What the folder holds is removed, but no folders in it. */
static inline int folder_make(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stk-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_remove(void **state)
{
    (void)state;
    DIR *directory = opendir(folder);
    if (!directory) return -1;
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    (void)closedir(directory);
    return rmdir(folder);
}

/* The number of its entries, hidden ones too. */
static inline unsigned folder_entries(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(directory);
    return count;
}

/* The path of NAME in the folder, until the second call after this one. */
static inline const char *folder_path(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

#endif
