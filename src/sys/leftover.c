/* SPDX-License-Identifier: Apache-2.0
 *
 * What killed processes left under temporary names: see leftover.h.
 */
#include "sys/leftover.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "sys/clock.h"
#include "sys/publish.h"

#define PREFIX ".stoker-"
enum { DIGITS = 16, PATH_BYTES_MAX = 4096 + 256 };

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* FNV-1a of 64 bits: names of one folder, where a clash would only make somebody look at a lock once more. */
static uint64_t hash_of(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const unsigned char *at = (const unsigned char *)base_of(path); *at; at++)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

char *stk_leftover_name(const char *path, const char *ending)
{
    uint64_t number = 0;
    int folder = (int)(base_of(path) - path);
    size_t size = (size_t)folder + sizeof PREFIX + 2 * DIGITS + 3 + strlen(ending);
    char *name = malloc(size);
    if (!name) return NULL;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = stk_clock_now_ns() ^ (uint64_t)getpid();
    (void)snprintf(name, size, "%.*s" PREFIX "%016llx-%016llx.%s", folder, path, (unsigned long long)hash_of(path),
                   (unsigned long long)number, ending);
    return name;
}

/* Is this a temporary name of one of the files, and of which kind? */
static bool is_of(const char *name, const uint64_t *hashes, size_t count, bool *out_old)
{
    char hash[DIGITS + 1];
    const char *digits = name + sizeof PREFIX - 1, *ending = digits + 2 * DIGITS + 1;
    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 || strlen(digits) < 2 * DIGITS + 1) return false;
    if (digits[DIGITS] != '-' || strspn(digits + DIGITS + 1, "0123456789abcdef") != DIGITS) return false;
    *out_old = strcmp(ending, "." STK_ENDING_OLD) == 0;
    if (!*out_old && strcmp(ending, "." STK_ENDING_PART) != 0) return false;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hashes[i]);
        if (memcmp(digits, hash, DIGITS) == 0) return true;
    }
    return false;
}

static void remove_in(const char *folder, const uint64_t *hashes, size_t count, bool old)
{
    char path[PATH_BYTES_MAX];
    DIR *directory = opendir(folder);
    if (!directory) return; /* as well as can be */
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        bool is_old = false;
        if (!is_of(entry->d_name, hashes, count, &is_old) || (is_old && !old)) continue;
        int size = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (size > 0 && (size_t)size < sizeof path) stk_file_remove_unclaimed(path, is_old);
    }
    (void)closedir(directory); /* it was only read */
}

void stk_leftovers_remove(const char *const *paths, size_t count, bool old)
{
    uint64_t hashes[STK_LEFTOVER_PATHS_MAX];
    char folder[PATH_BYTES_MAX], before[PATH_BYTES_MAX] = "";
    STK_ASSERT(count <= STK_LEFTOVER_PATHS_MAX);
    for (size_t i = 0; i < count; i++) hashes[i] = hash_of(paths[i]);
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)(base_of(paths[i]) - paths[i]);
        if (size >= sizeof folder) continue; /* no such path can be opened */
        (void)snprintf(folder, sizeof folder, "%.*s", (int)size, paths[i]);
        if (size == 0) (void)snprintf(folder, sizeof folder, "%s", ".");
        if (strcmp(before, folder) != 0) remove_in(folder, hashes, count, old);
        memcpy(before, folder, sizeof before);
    }
}
