/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a manifest whole, and does it still describe its files? Entries are looked at in any order and told in theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "media/manifest_entry.h"
#include "store/jobs.h"
#include "store/tar.h"

struct verify {
    const stoker_manifest *manifest;
    const stoker_manifest_verify_options *options;
    char **faults; /* one an entry; each belongs to its job */
};

static stoker_status check_sum(const stoker_manifest *manifest, uint64_t at, uint64_t size, uint64_t sum,
                               const char *what, stoker_error *err)
{
    if (stk_manifest_sum(STK_MANIFEST_SUM_INIT, manifest->data + at, (size_t)size) == sum) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT, "manifest: the %s at offset %llu do not have their checksum", what,
                    (unsigned long long)at);
}

/* Does a scan of today say the same as an entry? Else *fault has the sentence. */
static bool is_same(const struct verify *verify, const struct stk_manifest_value *then,
                    const struct stk_manifest_value *now, stoker_error *fault)
{
    const struct stk_manifest_record *a = &then->record, *b = &now->record;
    uint32_t promised = a->frames_exact == STK_MANIFEST_UNKNOWN ? a->frames : a->frames_exact;
    if (then->error && !now->error)
        (void)stk_fail(fault, STOKER_ERR_MISMATCH, "the file can be used now, its entry says: %s", then->error);
    else if (now->error && (!then->error || strcmp(then->error, now->error) != 0))
        (void)stk_fail(fault, STOKER_ERR_MISMATCH, "the file cannot be used: %s (its entry says: %s)", now->error,
                       then->error ? then->error : "it can");
    else if (now->error)
        return true;
    else if (strcmp(then->codec, now->codec) != 0 || a->width != b->width || a->height != b->height ||
             a->rotation != b->rotation)
        (void)stk_fail(fault, STOKER_ERR_MISMATCH, "the file is %s of %ux%u, its entry says %s of %ux%u", now->codec,
                       b->width, b->height, then->codec, a->width, a->height);
    else if (a->packets != b->packets || a->frames != b->frames)
        (void)stk_fail(fault, STOKER_ERR_MISMATCH, "the file has %u packets for %u frames, its entry says %u for %u",
                       b->packets, b->frames, a->packets, a->frames);
    else if (a->table_size != b->table_size || memcmp(then->table, now->table, a->table_size) != 0)
        (void)stk_fail(fault, STOKER_ERR_MISMATCH, "the packets of the file are others than those of its entry");
    else if (verify->options->depth == STOKER_MANIFEST_FRAMES && b->frames_exact != promised)
        (void)stk_fail(fault, STOKER_ERR_MISMATCH, "%u frames come out of the file, its entry says %u", b->frames_exact,
                       promised);
    else
        return true;
    return false;
}

static stoker_status pass_over(void *user, const struct stk_tar_member *member, stoker_error *err)
{
    (void)user, (void)member, (void)err;
    return STOKER_OK;
}

static bool is_same_shard(const struct stk_manifest_value *then, const struct stk_file *file, stoker_error *fault)
{
    stoker_error now = {0};
    stoker_status status = stk_tar_walk(file, pass_over, NULL, &now);
    if (then->record.status == status && strcmp(then->error, now.message) == 0) return true;
    (void)stk_fail(fault, STOKER_ERR_MISMATCH, "the shard %s%s, its entry says: %s",
                   status < 0 ? "cannot be read: " : "can be read now", status < 0 ? now.message : "", then->error);
    return false;
}

/* *out_good false: *fault has the sentence. */
static stoker_status check_entry(const struct verify *verify, uint64_t index, bool *out_good, stoker_error *fault)
{
    struct stk_manifest_value value;
    struct stk_file file;
    struct stk_manifest_made made;
    stk_manifest_value_at(verify->manifest, index, &value);
    *out_good = true;
    stoker_status status = stk_manifest_open_entry(verify->manifest, index, verify->options->object, &file, fault);
    if (status == STOKER_ERR_NO_MEMORY || status == STOKER_ERR_LIMIT) return status;
    if (status < 0) { /* what could not be opened when the manifest was made, and cannot now, is as it was */
        *out_good = value.record.status == status && value.record.mtime_ns == 0;
        return STOKER_OK;
    }
    if (verify->options->depth != STOKER_MANIFEST_FACTS && value.record.flags & STK_MANIFEST_SHARD) {
        *out_good = is_same_shard(&value, &file, fault);
    } else if (verify->options->depth != STOKER_MANIFEST_FACTS) {
        status = stk_manifest_make(&file, verify->options->depth == STOKER_MANIFEST_FRAMES, &made, fault);
        if (status >= 0) {
            *out_good = is_same(verify, &value, &made.value, fault);
            stk_manifest_made_fini(&made);
        }
    }
    stk_file_close(&file);
    return status;
}

static stoker_status run_job(void *user, size_t job, stoker_error *err)
{
    struct verify *verify = user;
    stoker_error fault = {0};
    bool good = true;
    stoker_status status = check_entry(verify, job, &good, &fault);
    if (status < 0) {
        if (err) *err = fault;
        return status;
    }
    if (good) return STOKER_OK;
    verify->faults[job] = strdup(fault.message);
    return verify->faults[job] ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a message");
}

static stoker_status check_arguments(const stoker_manifest *manifest, const stoker_manifest_verify_options *options,
                                     const uint64_t *out_faults, stoker_error *err)
{
    const uint8_t *bytes = (const uint8_t *)options;
    if (!manifest || !out_faults)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "manifest and out_faults must be given");
    if (options->struct_size < sizeof *options)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "options of %u bytes, expected %zu", options->struct_size,
                        sizeof *options);
    for (size_t i = sizeof *options; i < options->struct_size; i++)
        if (bytes[i]) return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the options are of a newer version");
    if (options->jobs > STK_RANGE_WAYS_MAX || (unsigned)options->depth > STOKER_MANIFEST_FRAMES)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%u jobs and depth %u, expected at most %u and %d",
                        options->jobs, (unsigned)options->depth, STK_RANGE_WAYS_MAX, STOKER_MANIFEST_FRAMES);
    return STOKER_OK;
}

stoker_status stoker_manifest_verify(const stoker_manifest *manifest, const stoker_manifest_verify_options *options,
                                     uint64_t *out_faults, stoker_error *err)
{
    const stoker_manifest_verify_options defaults = STOKER_MANIFEST_VERIFY_OPTIONS_INIT;
    if (!options) options = &defaults;
    STK_TRY(check_arguments(manifest, options, out_faults, err));
    const struct stk_manifest_header *header = &manifest->header;
    STK_TRY(check_sum(manifest, header->entries_at, header->text_at - header->entries_at, header->entries_sum,
                      "entries", err));
    STK_TRY(check_sum(manifest, header->text_at, header->text_size, header->text_sum, "texts", err));
    STK_TRY(check_sum(manifest, header->tables_at, header->tables_size, header->tables_sum, "packets", err));
    struct verify verify = {.manifest = manifest, .options = options};
    size_t count = (size_t)header->entry_count;
    verify.faults = calloc(count + 1, sizeof *verify.faults);
    if (!verify.faults) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu entries", count);
    stoker_status status = stk_jobs_run(count, options->jobs ? options->jobs : 1, run_job, &verify, err);
    uint64_t faults = 0;
    for (size_t i = 0; i < count; i++) {
        if (status >= 0 && verify.faults[i]) {
            faults++;
            if (options->fault_fn) options->fault_fn(options->fault_user, i, verify.faults[i]);
        }
        free(verify.faults[i]);
    }
    free(verify.faults);
    STK_TRY(status);
    *out_faults = faults;
    return STOKER_OK;
}
