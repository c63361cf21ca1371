/* SPDX-License-Identifier: Apache-2.0
 *
 * Room for more memory (rule A3): the smallest of MemAvailable and of (limit - use) along the memory cgroup path,
 * minus a margin. The kernel answers a charge above a cgroup's limit with SIGKILL and never with an error code, so the
 * comparison must come first.
 *
 * Handles cgroup v1, v2 and both at once. A group that is not visible (a container that mounts only its own subtree)
 * is passed over; its visible ancestors still count. Inactive file pages count as free, as the kernel takes them back
 * before it kills.
 */
#include "sys/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

enum { FILE_TEXT_BYTES = 16384 /* memory.stat is about 2 KiB */ };

/* The tightest bound seen so far. */
struct bound {
    uint64_t available;
    char file[PATH_MAX]; /* that sets it: of a cgroup; empty for the machine */
};

/* Reads a small file whole, terminated. False if it is not there. */
static bool read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    ssize_t got = 1;
    while (used < size - 1 && (got = read(fd, out + used, size - 1 - used)) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) break;
        used += (size_t)got;
    }
    (void)close(fd); /* nothing was written */
    out[used] = 0;
    return got >= 0;
}

static bool join(char *out, size_t size, const char *a, const char *b, const char *c)
{
    int length = snprintf(out, size, "%s%s%s", a, b, c);
    return length >= 0 && (size_t)length < size;
}

static bool read_number(const char *directory, const char *name, uint64_t *out)
{
    char path[PATH_MAX], text[64], *end;
    if (!join(path, sizeof path, directory, "/", name) || !read_text(path, text, sizeof text)) return false;
    if (strncmp(text, "max", 3) == 0) {
        *out = UINT64_MAX;
        return true;
    }
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && errno == 0;
}

/* The value of "key value" at the start of a line, 0 if there is none. */
static uint64_t find_value(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            return strtoull(line + length + 1, NULL, 10);
    return 0;
}

static uint64_t reclaimable(const char *group, const char *key)
{
    char path[PATH_MAX], text[FILE_TEXT_BYTES];
    if (!join(path, sizeof path, group, "/memory.stat", "") || !read_text(path, text, sizeof text)) return 0;
    return find_value(text, key);
}

static void tighten(struct bound *bound, const char *group, const char *limit_name, const char *use_name,
                    const char *stat_key)
{
    uint64_t limit, use;
    if (!read_number(group, limit_name, &limit) || limit == UINT64_MAX || !read_number(group, use_name, &use)) return;
    uint64_t file = reclaimable(group, stat_key);
    use -= file < use ? file : use;
    uint64_t available = limit > use ? limit - use : 0;
    if (available >= bound->available) return;
    bound->available = available;
    if (!join(bound->file, sizeof bound->file, group, "/", limit_name)) bound->file[0] = 0;
}

/* From the group up to the root of the mount; every level bounds what is below it. */
static void walk(struct bound *bound, const char *mount, const char *group, bool v2)
{
    char path[PATH_MAX];
    /* "/.." leads out of the mount: our own group lies above what we can see, its root still bounds us. */
    if (strstr(group, "/..") || !join(path, sizeof path, mount, group, "")) {
        if (!join(path, sizeof path, mount, "", "")) return;
    }
    size_t root = strlen(mount);
    for (;;) {
        size_t length = strlen(path);
        while (length > root && path[length - 1] == '/') path[--length] = 0;
        if (v2) {
            tighten(bound, path, "memory.max", "memory.current", "inactive_file");
            tighten(bound, path, "memory.high", "memory.current", "inactive_file");
        } else {
            tighten(bound, path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
        }
        if (length <= root) return;
        *strrchr(path + root, '/') = 0;
    }
}

/* Is `word` one of the comma-separated `list`, which ends at `end`? */
static bool lists_word(const char *list, const char *end, const char *word)
{
    size_t length = strlen(word);
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        size_t item = (size_t)((comma ? comma : end) - list);
        if (item == length && memcmp(list, word, length) == 0) return true;
        list += item + 1;
    }
    return false;
}

static void walk_groups(struct bound *bound, const char *proc_root, const char *cgroup_root)
{
    char path[PATH_MAX], text[FILE_TEXT_BYTES];
    if (!join(path, sizeof path, proc_root, "/self/cgroup", "") || !read_text(path, text, sizeof text)) return;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) != NULL) { /* "4:memory:/path", "0::/path" */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group || group[1] != '/') continue;
        if (group == controllers + 1) { /* v2: alone at the root, or beside v1 in "unified" */
            walk(bound, cgroup_root, group + 1, true);
            if (join(path, sizeof path, cgroup_root, "/unified", "")) walk(bound, path, group + 1, true);
        } else if (lists_word(controllers + 1, group, "memory")) {
            if (join(path, sizeof path, cgroup_root, "/memory", "")) walk(bound, path, group + 1, false);
        }
    }
}

stoker_status stk_memory_room(uint64_t size, const char *proc_root, const char *cgroup_root, stoker_error *err)
{
    struct bound bound = {UINT64_MAX, ""};
    char path[PATH_MAX], text[FILE_TEXT_BYTES];
    if (!proc_root) proc_root = "/proc";
    if (!cgroup_root) cgroup_root = "/sys/fs/cgroup";
    if (join(path, sizeof path, proc_root, "/meminfo", "") && read_text(path, text, sizeof text)) {
        uint64_t kib = find_value(text, "MemAvailable");
        if (kib > 0 && kib < UINT64_MAX / 1024) bound.available = kib * 1024;
    }
    walk_groups(&bound, proc_root, cgroup_root);

    if (bound.available >= STK_MEMORY_MARGIN_BYTES && bound.available - STK_MEMORY_MARGIN_BYTES >= size)
        return STOKER_OK;
    const double mib = 1 << 20;
    if (!bound.file[0])
        return stk_fail(
            err, STOKER_ERR_NO_MEMORY,
            "%.1f MiB and a margin of %u MiB needed, %.1f MiB available on this machine (MemAvailable): lower "
            "max_bytes or num_workers, or end other programs",
            (double)size / mib, STK_MEMORY_MARGIN_BYTES >> 20, (double)bound.available / mib);
    char *slash = strrchr(bound.file, '/');
    *slash = 0;
    return stk_fail(
        err, STOKER_ERR_NO_MEMORY,
        "%.1f MiB and a margin of %u MiB needed, %.1f MiB available in this memory cgroup: lower max_bytes or "
        "num_workers, or raise %s of '%s'",
        (double)size / mib, STK_MEMORY_MARGIN_BYTES >> 20, (double)bound.available / mib, slash + 1, bound.file);
}
