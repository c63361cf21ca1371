/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of manifests share: a private folder with golden clips in it, and manifests of it.
 */
#ifndef STK_MEDIA_MANIFEST_FIXTURE_H
#define STK_MEDIA_MANIFEST_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/manifest.h>

#include "media/manifest.h"
#include "media/media_fixture.h"

static char fixture_folder[64];

/* A path in the private folder; one of four that are in use at once. */
static inline const char *inside(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    assert_true(snprintf(path, sizeof paths[0], "%s/%s", fixture_folder, name) < (int)sizeof paths[0]);
    return path;
}

static inline void fixture_write(const char *path, const void *data, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static inline uint8_t *fixture_read(const char *path, size_t *out_size)
{
    struct stat facts;
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fstat(fileno(in), &facts), 0);
    uint8_t *data = malloc((size_t)facts.st_size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)facts.st_size, in), facts.st_size);
    assert_int_equal(fclose(in), 0);
    *out_size = (size_t)facts.st_size;
    return data;
}

/* Copies a golden clip under a name. */
static inline void fixture_clip(const char *clip, const char *name)
{
    size_t size = 0;
    uint8_t *data = fixture_read(clip_path(clip), &size);
    fixture_write(inside(name), data, size);
    free(data);
}

static inline int fixture_begin(void **state)
{
    (void)state;
    (void)snprintf(fixture_folder, sizeof fixture_folder, "/tmp/stoker-manifest-XXXXXX");
    return mkdtemp(fixture_folder) ? 0 : -1;
}

/* One level of folders is enough for the tests. */
static inline int fixture_end(void **state)
{
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        DIR *entries = opendir(fixture_folder);
        for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
            char path[512];
            (void)snprintf(path, sizeof path, "%s/%s", fixture_folder, entry->d_name);
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            if (unlink(path) == 0 || pass == 1) continue;
            DIR *inner = opendir(path);
            for (struct dirent *file; inner && (file = readdir(inner)) != NULL;) {
                char name[1024];
                (void)snprintf(name, sizeof name, "%s/%s", path, file->d_name);
                (void)unlink(name);
            }
            if (inner) (void)closedir(inner);
            (void)rmdir(path);
        }
        if (entries) (void)closedir(entries);
    }
    return rmdir(fixture_folder);
}

/* Builds "m" in the private folder of sources (paths in it). */
static inline stoker_manifest_progress fixture_build(const char *name, const char *const *names, size_t count,
                                                     const stoker_manifest_build_options *options)
{
    const char *paths[8];
    char texts[8][256];
    stoker_manifest_progress progress;
    stoker_error err;
    memset(&progress, 0, sizeof progress);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%s", inside(names[i]));
        paths[i] = texts[i];
    }
    const stoker_manifest_sources sources = {paths, count};
    if (stoker_manifest_build(inside(name), &sources, options, &progress, &err) != STOKER_OK)
        fail_msg("%s: %s", err.context, err.message);
    return progress;
}

static inline stoker_manifest *fixture_open(const char *name)
{
    stoker_manifest *manifest = NULL;
    stoker_error err;
    if (stoker_manifest_open(inside(name), &manifest, &err) != STOKER_OK) fail_msg("%s", err.message);
    return manifest;
}

static inline stoker_manifest_entry fixture_entry(const stoker_manifest *manifest, uint64_t index)
{
    stoker_manifest_entry entry;
    assert_int_equal(stoker_manifest_get_entry(manifest, index, &entry, NULL), STOKER_OK);
    return entry;
}

static inline void assert_same_files(const char *a, const char *b)
{
    size_t a_size = 0, b_size = 0;
    uint8_t *a_data = fixture_read(inside(a), &a_size), *b_data = fixture_read(inside(b), &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a_data, b_data, a_size);
    free(a_data);
    free(b_data);
}

#endif
