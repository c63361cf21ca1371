/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a manifest: list the sources, take over what an older manifest or an interrupted build knows, scan the rest
 * into the journal, then write the whole.
 *
 * A place in the list says only where its entry lies (in the older manifest, in the journal), so that memory holds the
 * paths of the files and nothing of their packets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "media/manifest_entry.h"
#include "media/manifest_journal.h"
#include "media/manifest_past.h"
#include "media/manifest_sources.h"
#include "store/jobs.h"
#include "store/range.h"
#include "sys/thread.h"

/* Below the one of jobs, which is not held while a job runs. */
enum { LOCK_RANK = 39 };

enum from { FROM_NOTHING, FROM_MANIFEST, FROM_JOURNAL };

struct place {
    uint64_t at;
    enum from from;
};

struct build {
    /* fixed while jobs run */
    const stoker_manifest_build_options *options;
    char *path, *folder;
    struct stk_manifest_items items;
    stoker_manifest *older; /* NULL: none */
    struct stk_manifest_pasts in_manifest, in_journal;
    struct place *places; /* one an item; each belongs to its job */
    struct stk_mutex *lock;
    /* guarded by lock, but for what is mapped of the journal */
    struct stk_manifest_journal journal;
    stoker_manifest_progress progress;
};

/* ---------------------------------------------------------------------------------------------------------- entries */

static void value_at(const struct build *build, const struct place *place, struct stk_manifest_value *out)
{
    STK_ASSERT(place->from != FROM_NOTHING);
    if (place->from == FROM_MANIFEST)
        stk_manifest_value_at(build->older, place->at, out);
    else
        (void)stk_manifest_journal_value(&build->journal, place->at, out); /* the next one is not wanted */
}

/* Sets the place of an item whose entry is known and still right. */
static void take_over(const struct build *build, const struct stk_manifest_item *item, const struct stk_file *facts,
                      struct place *place)
{
    const char *path = stk_manifest_relative(build->folder, item->path);
    const struct stk_manifest_past *pasts[] = {stk_manifest_pasts_find(&build->in_journal, path, item->member),
                                               stk_manifest_pasts_find(&build->in_manifest, path, item->member)};
    const enum from from[] = {FROM_JOURNAL, FROM_MANIFEST};
    for (int i = 0; i < 2; i++) {
        if (!pasts[i]) continue;
        const struct place known = {pasts[i]->at, from[i]};
        struct stk_manifest_value value;
        value_at(build, &known, &value);
        const struct stk_manifest_record *record = &value.record;
        bool counted = record->status != 0 || record->frames_exact != STK_MANIFEST_UNKNOWN;
        if (record->bytes == facts->size && record->mtime_ns == facts->mtime_ns && record->offset == item->offset &&
            stk_manifest_is_lasting((stoker_status)record->status) && (counted || !build->options->exact)) {
            *place = known;
            return;
        }
    }
}

/* Size and time without opening the file, where that is possible. */
static bool look(const struct stk_manifest_item *item, struct stk_file *facts)
{
    if (item->member || item->error) {
        facts->size = item->bytes, facts->mtime_ns = item->mtime_ns;
        return true;
    }
    return !stk_url_is_object(item->path) && stk_file_facts(item->path, &facts->size, &facts->mtime_ns);
}

static stoker_status open_item(const struct build *build, const struct stk_manifest_item *item,
                               struct stk_file *out_file, stoker_error *err)
{
    if (stk_url_is_object(item->path))
        STK_TRY(stk_file_open_object(item->path, build->options->object, out_file, err));
    else
        STK_TRY(stk_file_open(item->path, out_file, err));
    stoker_status status = STOKER_OK;
    if (item->member && out_file->mtime_ns != item->mtime_ns)
        status = stk_fail(err, STOKER_ERR_MISMATCH, "the shard was changed while it was read");
    if (status >= 0 && item->member) status = stk_file_narrow(out_file, item->offset, item->bytes, err);
    if (status < 0) stk_file_close(out_file);
    return status;
}

/* Makes the entry of an item. An object is opened to see its size and version: it may be known after all. */
static stoker_status make_entry(const struct build *build, const struct stk_manifest_item *item, struct place *place,
                                struct stk_manifest_made *made, stoker_error *err)
{
    struct stk_file file;
    stoker_error fault = {0};
    memset(made, 0, sizeof *made);
    if (item->error) {
        made->value.record.bytes = item->bytes, made->value.record.mtime_ns = item->mtime_ns;
        stk_manifest_make_bad(item->status, item->error, made);
        made->value.record.flags = STK_MANIFEST_SHARD;
        return STOKER_OK;
    }
    stoker_status status = open_item(build, item, &file, &fault);
    if (status == STOKER_ERR_NO_MEMORY || status == STOKER_ERR_LIMIT) {
        if (err) *err = fault;
        return status;
    }
    if (status < 0) {
        stk_manifest_make_bad(status, fault.message, made);
        return STOKER_OK;
    }
    if (stk_url_is_object(item->path) && !item->member) take_over(build, item, &file, place);
    if (place->from == FROM_NOTHING) status = stk_manifest_make(&file, build->options->exact, made, err);
    stk_file_close(&file);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- the job */

/* Called with the lock. */
static stoker_status count_done(struct build *build, enum from known, bool bad, stoker_error *err)
{
    build->progress.done++;
    build->progress.kept += known == FROM_MANIFEST;
    build->progress.resumed += known == FROM_JOURNAL;
    build->progress.bad += bad;
    if (!build->options->progress_fn) return STOKER_OK;
    return build->options->progress_fn(build->options->progress_user, &build->progress, err);
}

static stoker_status run_job(void *user, size_t job, stoker_error *err)
{
    struct build *build = user;
    const struct stk_manifest_item *item = &build->items.items[job];
    struct place *place = &build->places[job];
    struct stk_file facts = {.fd = -1};
    struct stk_manifest_made made = {.table = NULL};
    if (look(item, &facts)) take_over(build, item, &facts, place);
    if (place->from == FROM_NOTHING) STK_TRY(make_entry(build, item, place, &made, err));

    const enum from known = place->from;
    struct stk_manifest_value value = made.value;
    stoker_status status = STOKER_OK;
    if (known != FROM_NOTHING) value_at(build, place, &value);
    value.path = stk_manifest_relative(build->folder, item->path);
    value.member = item->member;
    value.record.offset = item->offset;
    stk_mutex_lock(build->lock);
    if (known == FROM_NOTHING) {
        status = stk_manifest_journal_append(&build->journal, &value, &place->at, err);
        place->from = FROM_JOURNAL;
    }
    if (status >= 0) status = count_done(build, known, value.record.status != 0, err);
    stk_mutex_unlock(build->lock);
    stk_manifest_made_fini(&made);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ build */

/* What stands at the path of the new manifest: nothing, or an older one. What is neither is not written over. */
static stoker_status open_older(struct build *build, stoker_error *err)
{
    struct stk_file file;
    uint8_t magic[4] = {0};
    size_t got = 0;
    stoker_error fault = {0};
    stoker_status status = stk_file_open(build->path, &file, &fault);
    if (status == STOKER_ERR_NOT_FOUND) return STOKER_OK;
    if (status >= 0) {
        status = stk_file_read(&file, 0, magic, sizeof magic, &got, &fault);
        stk_file_close(&file);
    }
    if (status < 0) {
        if (err) *err = fault;
        return status;
    }
    if (got < sizeof magic || stk_manifest_get32(magic) != STK_MANIFEST_MAGIC)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s' is there and is no manifest: it is not written over",
                        build->path);
    /* A damaged one, or one of another version, has nothing to take over. */
    if (!build->options->fresh && stoker_manifest_open(build->path, &build->older, NULL) < 0) build->older = NULL;
    return STOKER_OK;
}

static stoker_status open_journal(struct build *build, stoker_error *err)
{
    static const char ending[] = ".stoker-journal";
    size_t size = strlen(build->path) + sizeof ending;
    char *path = malloc(size);
    if (!path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    (void)snprintf(path, size, "%s%s", build->path, ending);
    stoker_status status = stk_manifest_journal_open(path, build->options->fresh, &build->journal, err);
    free(path);
    return status;
}

static stoker_status give_value(void *user, uint64_t index, struct stk_manifest_value *out, stoker_error *err)
{
    const struct build *build = user;
    (void)err;
    value_at(build, &build->places[index], out);
    return STOKER_OK;
}

static stoker_status run_build(struct build *build, const stoker_manifest_sources *sources, stoker_error *err)
{
    STK_TRY(open_older(build, err));
    STK_TRY(open_journal(build, err));
    for (size_t i = 0; i < sources->count; i++)
        STK_TRY(stk_manifest_add_source(&build->items, sources->sources[i], build->options->object, err));
    STK_TRY(stk_manifest_pasts_of_manifest(build->older, &build->in_manifest, err));
    STK_TRY(stk_manifest_pasts_of_journal(&build->journal, &build->in_journal, err));
    build->places = calloc(build->items.count + 1, sizeof *build->places);
    if (!build->places) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu entries", build->items.count);
    STK_TRY(stk_mutex_create(LOCK_RANK, &build->lock, err));
    build->progress.total = build->items.count;
    STK_TRY(stk_jobs_run(build->items.count, build->options->jobs ? build->options->jobs : 1, run_job, build, err));
    STK_TRY(stk_manifest_journal_map(&build->journal, err));
    return stk_manifest_write(build->path, build->items.count, give_value, build, err);
}

static stoker_status check_build(const char *path, const stoker_manifest_sources *sources,
                                 const stoker_manifest_build_options *options, stoker_error *err)
{
    const uint8_t *bytes = (const uint8_t *)options;
    if (!path || !sources || (sources->count > 0 && !sources->sources))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and sources must be given");
    for (size_t i = 0; i < sources->count; i++)
        if (!sources->sources[i]) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "source %zu is missing", i);
    if (options->struct_size < sizeof *options)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "options of %u bytes, expected %zu", options->struct_size,
                        sizeof *options);
    for (size_t i = sizeof *options; i < options->struct_size; i++)
        if (bytes[i]) return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the options are of a newer version");
    if (options->jobs > STK_RANGE_WAYS_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u jobs, expected at most %u", options->jobs,
                        STK_RANGE_WAYS_MAX);
    return STOKER_OK;
}

stoker_status stoker_manifest_build(const char *path, const stoker_manifest_sources *sources,
                                    const stoker_manifest_build_options *options,
                                    stoker_manifest_progress *out_progress, stoker_error *err)
{
    const stoker_manifest_build_options defaults = STOKER_MANIFEST_BUILD_OPTIONS_INIT;
    struct build build = {.options = options ? options : &defaults, .journal = {.fd = -1}};
    STK_TRY(check_build(path, sources, build.options, err));
    stoker_status status = stk_manifest_absolute(path, &build.path, err);
    if (status >= 0 && !(build.folder = stk_manifest_folder(build.path)))
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    if (status >= 0) status = run_build(&build, sources, err);
    if (status >= 0 && out_progress) *out_progress = build.progress;
    stk_manifest_journal_close(&build.journal, status >= 0);
    stoker_manifest_close(build.older);
    stk_manifest_items_fini(&build.items);
    stk_mutex_destroy(build.lock);
    stk_manifest_pasts_fini(&build.in_manifest);
    stk_manifest_pasts_fini(&build.in_journal);
    free(build.places);
    free(build.path);
    free(build.folder);
    return status;
}
