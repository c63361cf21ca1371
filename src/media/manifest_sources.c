/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources of a manifest: see manifest_sources.h.
 */
#include "media/manifest_sources.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/manifest.h"
#include "store/range.h"
#include "store/tar.h"

/* Deeper than any tree of clips. */
enum { DEPTH_MAX = 64 };

bool stk_manifest_is_video(const char *name, size_t size)
{
    /* The same list as VIDEO_EXTENSIONS of the Python package; a test compares them. */
    static const char *const endings[] = {".3gp", ".asf",  ".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mkv",  ".mov",
                                          ".mp4", ".mpeg", ".mpg", ".mts", ".ogv", ".ts",   ".vob", ".webm", ".wmv"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t length = strlen(endings[i]);
        if (size > length && strncasecmp(name + size - length, endings[i], length) == 0) return true;
    }
    return false;
}

static bool is_shard(const char *name)
{
    size_t size = strlen(name);
    return size > 4 && strcasecmp(name + size - 4, ".tar") == 0;
}

/* ------------------------------------------------------------------------------------------------------------ items */

static stoker_status add_item(struct stk_manifest_items *items, const struct stk_manifest_item *item, const char *path,
                              const char *member, stoker_error *err)
{
    if (items->count == items->capacity) {
        size_t wanted = items->capacity ? items->capacity * 2 : 256, bytes;
        void *larger = stk_mul_size(wanted, sizeof *items->items, &bytes) ? realloc(items->items, bytes) : NULL;
        if (!larger) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu files", wanted);
        items->items = larger;
        items->capacity = wanted;
    }
    struct stk_manifest_item *added = &items->items[items->count];
    *added = *item;
    added->path = strdup(path);
    added->member = member ? strdup(member) : NULL;
    if (!added->path || (member && !added->member)) {
        free(added->path);
        free(added->member);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu files", items->count);
    }
    items->count++;
    return STOKER_OK;
}

static void drop_last(struct stk_manifest_items *items)
{
    struct stk_manifest_item *last = &items->items[--items->count];
    free(last->path);
    free(last->member);
    free(last->error);
}

void stk_manifest_items_fini(struct stk_manifest_items *items)
{
    while (items->count > 0) drop_last(items);
    free(items->items);
    *items = (struct stk_manifest_items){NULL, 0, 0};
}

/* ----------------------------------------------------------------------------------------------------------- shards */

struct shard {
    struct stk_manifest_items *items;
    const char *path;
    int64_t mtime_ns;
    bool failed; /* a fault of ours, not of the archive */
};

static stoker_status take_member(void *user, const struct stk_tar_member *member, stoker_error *err)
{
    struct shard *shard = user;
    if (!stk_manifest_is_video(member->name, member->name_size)) return STOKER_OK;
    const struct stk_manifest_item item = {
        .offset = member->offset, .bytes = member->size, .mtime_ns = shard->mtime_ns};
    stoker_status status = add_item(shard->items, &item, shard->path, member->name, err);
    shard->failed = status < 0;
    return status;
}

/* A shard that cannot be read is one bad item: its members are not known for certain. */
static stoker_status add_bad_shard(struct stk_manifest_items *items, struct stk_manifest_item *item, const char *path,
                                   const stoker_error *fault, stoker_error *err)
{
    item->status = fault->status;
    item->error = strdup(fault->message[0] ? fault->message : "the shard cannot be read");
    if (!item->error) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu files", items->count);
    stoker_status status = add_item(items, item, path, NULL, err);
    if (status < 0) free(item->error);
    return status;
}

static stoker_status add_shard(struct stk_manifest_items *items, const char *path, const stoker_object_options *object,
                               stoker_error *err)
{
    struct shard shard = {.items = items, .path = path};
    struct stk_manifest_item bad = {.status = STOKER_OK};
    struct stk_file file = {.fd = -1};
    stoker_error fault = {0};
    size_t count = items->count;
    stoker_status status = stk_url_is_object(path) ? stk_file_open_object(path, object, &file, &fault)
                                                   : stk_file_open(path, &file, &fault);
    if (status >= 0) {
        shard.mtime_ns = bad.mtime_ns = file.mtime_ns;
        bad.bytes = file.size;
        status = stk_tar_walk(&file, take_member, &shard, &fault);
        stk_file_close(&file);
    }
    if (status >= 0) return STOKER_OK;
    while (items->count > count) drop_last(items);
    if (shard.failed || status == STOKER_ERR_NO_MEMORY || status == STOKER_ERR_LIMIT) {
        if (err) *err = fault;
        return status;
    }
    return add_bad_shard(items, &bad, path, &fault, err);
}

/* ---------------------------------------------------------------------------------------------------------- folders */

struct names {
    char **paths;
    size_t count, capacity;
};

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) free(names->paths[i]);
    free(names->paths);
}

/* Takes the path. */
static stoker_status add_name(struct names *names, char *path, stoker_error *err)
{
    if (names->count == names->capacity) {
        size_t wanted = names->capacity ? names->capacity * 2 : 256;
        char **larger = wanted <= SIZE_MAX / sizeof *larger ? realloc(names->paths, wanted * sizeof *larger) : NULL;
        if (!larger) {
            free(path);
            return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu files", wanted);
        }
        names->paths = larger;
        names->capacity = wanted;
    }
    names->paths[names->count++] = path;
    return STOKER_OK;
}

static stoker_status walk(struct names *names, const char *folder, int depth, stoker_error *err);

static stoker_status take_name(struct names *names, const char *folder, const char *name, int depth, stoker_error *err)
{
    struct stat facts, target;
    size_t folder_size = strlen(folder), size = folder_size + strlen(name) + 2;
    char *path = malloc(size);
    if (!path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    (void)snprintf(path, size, "%s%s%s", folder, folder[folder_size - 1] == '/' ? "" : "/", name);
    if (lstat(path, &facts) != 0) { /* gone since its folder was read */
        free(path);
        return STOKER_OK;
    }
    if (S_ISDIR(facts.st_mode)) {
        stoker_status status = walk(names, path, depth + 1, err);
        free(path);
        return status;
    }
    /* Links to folders are not followed: two of them to their own folder would make the walk endless. */
    bool to_folder = S_ISLNK(facts.st_mode) && stat(path, &target) == 0 && S_ISDIR(target.st_mode);
    if (!to_folder && (stk_manifest_is_video(name, strlen(name)) || is_shard(name))) return add_name(names, path, err);
    free(path);
    return STOKER_OK;
}

static stoker_status walk(struct names *names, const char *folder, int depth, stoker_error *err)
{
    if (depth >= DEPTH_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "the folder '%s' is more than %d folders deep", folder, DEPTH_MAX);
    DIR *entries = opendir(folder);
    if (!entries) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the folder '%s'", folder);
    stoker_status status = STOKER_OK;
    for (struct dirent *entry; status >= 0 && (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.') status = take_name(names, folder, entry->d_name, depth, err);
    (void)closedir(entries); /* it was only read */
    return status;
}

static int by_bytes(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

static stoker_status add_path(struct stk_manifest_items *items, const char *path, const char *name,
                              const stoker_object_options *object, stoker_error *err)
{
    const struct stk_manifest_item none = {.status = STOKER_OK};
    return is_shard(name) ? add_shard(items, path, object, err) : add_item(items, &none, path, NULL, err);
}

static stoker_status add_folder(struct stk_manifest_items *items, const char *folder, stoker_error *err)
{
    struct names names = {NULL, 0, 0};
    stoker_status status = walk(&names, folder, 0, err);
    if (status >= 0 && names.count > 0) qsort(names.paths, names.count, sizeof *names.paths, by_bytes);
    for (size_t i = 0; status >= 0 && i < names.count; i++)
        status = add_path(items, names.paths[i], names.paths[i], NULL, err);
    names_fini(&names);
    return status;
}

static stoker_status add_object(struct stk_manifest_items *items, const char *url, const stoker_object_options *object,
                                stoker_error *err)
{
    char *name = strndup(url, strcspn(url, "?#"));
    if (!name) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    stoker_status status = add_path(items, url, name, object, err);
    free(name);
    return status;
}

stoker_status stk_manifest_add_source(struct stk_manifest_items *items, const char *source,
                                      const stoker_object_options *object, stoker_error *err)
{
    struct stat facts;
    char *path = NULL;
    stoker_status status;
    STK_TRY(stk_manifest_absolute(source, &path, err));
    if (stk_url_is_object(path))
        status = add_object(items, path, object, err);
    else if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        status = add_folder(items, path, err);
    else
        status = add_path(items, path, path, NULL, err);
    free(path);
    return status;
}
