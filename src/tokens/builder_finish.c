/* SPDX-License-Identifier: Apache-2.0
 *
 * Publish a dataset: write the index, sync both files, then give them their names, the index last, so that a reader
 * that finds an index finds its data. What stood under the names before is moved aside meanwhile and put back on
 * failure: new data under an old index would be read as garbage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "sys/leftover.h"
#include "tokens/builder_internal.h"
#include "tokens/format.h"

enum { STEP_ENTRIES = 16384 };

static stoker_status write_list(struct stk_publish *idx, const struct stk_list *list, uint64_t *at, stoker_error *err)
{
    const void *run = NULL;
    for (uint64_t from = 0, count; (count = stk_list_run(list, from, &run)) > 0; from += count) {
        STK_TRY(stk_publish_write(idx, *at, run, (size_t)count * list->element_bytes, err));
        *at += count * list->element_bytes;
    }
    return STOKER_OK;
}

/* The running sum of the lengths, in bytes. */
static stoker_status write_offsets(const stoker_dataset_builder *builder, struct stk_publish *idx, uint64_t *at,
                                   stoker_error *err)
{
    const void *run = NULL;
    uint64_t sum = 0;
    int64_t *offsets = malloc(STEP_ENTRIES * sizeof *offsets);
    stoker_status status =
        offsets ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to write '%s'", idx->path);
    for (uint64_t from = 0, count; status == STOKER_OK; from += count) {
        count = stk_list_run(&builder->lengths, from, &run);
        if (count == 0) break;
        if (count > STEP_ENTRIES) count = STEP_ENTRIES;
        for (uint64_t i = 0; i < count; i++) {
            offsets[i] = (int64_t)sum;
            sum += (uint64_t)((const int32_t *)run)[i] * builder->element_bytes;
        }
        status = stk_publish_write(idx, *at, offsets, (size_t)count * sizeof *offsets, err);
        *at += count * sizeof *offsets;
    }
    free(offsets);
    return status;
}

static stoker_status write_index(const stoker_dataset_builder *builder, struct stk_publish *idx, stoker_error *err)
{
    struct stk_index_layout layout = {.sequences = builder->lengths.count,
                                      .document_entries = builder->documents.count,
                                      .dtype_code = builder->dtype_code};
    uint8_t header[STK_INDEX_HEADER_BYTES];
    uint64_t at = sizeof header;
    stk_index_header_encode(&layout, header);
    STK_TRY(stk_publish_write(idx, 0, header, sizeof header, err));
    STK_TRY(write_list(idx, &builder->lengths, &at, err));
    STK_TRY(write_offsets(builder, idx, &at, err));
    STK_TRY(write_list(idx, &builder->documents, &at, err));
    STK_TRY(write_list(idx, &builder->modes, &at, err)); /* empty without modes */
    stk_publish_push(idx, 0, at);
    return STOKER_OK;
}

static stoker_status check_ended(const stoker_dataset_builder *builder, stoker_error *err)
{
    const void *run = NULL;
    int64_t last = 0;
    (void)stk_list_run(&builder->documents, builder->documents.count - 1, &run); /* there is always one */
    memcpy(&last, run, sizeof last);
    uint64_t after = builder->lengths.count - (uint64_t)last;
    if (after == 0) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_WRONG_STATE,
                    "%llu sequences were added after the last document end: end the document before finalize",
                    (unsigned long long)after);
}

static stoker_status finish_data(stoker_dataset_builder *builder, stoker_error *err)
{
    STK_TRY(stk_builder_flush(builder, err));
    if (builder->file_end > builder->written && ftruncate(builder->bin.fd, (off_t)builder->written) != 0)
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot cut '%s' to %llu bytes", builder->bin.path,
                           (unsigned long long)builder->written);
    builder->file_end = builder->written;
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------ the names */

/* A file that has the name we want: it keeps its content under another name until it is clear who stays. */
struct aside {
    char *path, *kept; /* kept NULL: there was none */
    int fd;            /* of the file, for the claim */
    struct stk_file_lock *claim;
};

static void aside_end(struct aside *aside, bool restore, stoker_error *err)
{
    if (aside->kept && !restore) (void)unlink(aside->kept);
    if (aside->kept && restore && rename(aside->kept, aside->path) != 0)
        (void)stk_fail_os(err, STOKER_ERR_IO, errno,
                          "publishing failed, and what was '%s' has to stay under the name '%s'", aside->path,
                          aside->kept);
    if (aside->fd >= 0) (void)close(aside->fd); /* it was only for the claim */
    stk_file_lock_release(aside->claim);
    free(aside->path);
    free(aside->kept);
    *aside = (struct aside){.fd = -1};
}

static stoker_status aside_begin(const char *path, struct aside *out, stoker_error *err)
{
    STK_TRY(stk_publish_check_name(path, err)); /* once more: building may have taken hours */
    struct aside made = {strdup(path), stk_leftover_name(path, STK_ENDING_OLD), -1, NULL};
    if (!made.path || !made.kept) {
        free(made.path);
        free(made.kept);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to publish '%s'", path);
    }
    made.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (made.fd >= 0) made.claim = stk_file_claim(made.fd, true);
    *out = made;
    if (rename(path, made.kept) == 0) return STOKER_OK;
    int os_error = errno;
    free(made.kept);
    out->kept = NULL;
    if (os_error == ENOENT) return STOKER_OK;
    aside_end(out, false, NULL);
    return stk_fail_os(err, STOKER_ERR_IO, os_error, "cannot replace '%s'", path);
}

static stoker_status publish_both(stoker_dataset_builder *builder, struct stk_publish *idx, stoker_error *err)
{
    struct aside old_idx = {.fd = -1}, old_bin = {.fd = -1};
    /* The long wait for the disk comes before the instant in which neither the old files nor the new have the names. */
    if (!idx->unsynced && (fsync(builder->bin.fd) != 0 || fsync(idx->fd) != 0))
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot sync '%s' and '%s'", builder->bin.path, idx->path);
    if (atomic_load_explicit(&builder->canceled, memory_order_relaxed))
        return stk_fail(err, STOKER_ERR_CANCELED, "'%s' was not published: the call was canceled", builder->bin.path);
    char *const paths[] = {strdup(builder->bin.path), strdup(idx->path)}; /* a commit frees the others */
    stoker_status status = aside_begin(idx->path, &old_idx, err);
    if (status == STOKER_OK) status = aside_begin(builder->bin.path, &old_bin, err);
    if (status == STOKER_OK) status = stk_publish_commit_pair(&builder->bin, idx, err);
    aside_end(&old_bin, status < 0, err);
    aside_end(&old_idx, status < 0, err);
    if (status == STOKER_OK && paths[0] && paths[1]) stk_leftovers_remove((const char *const *)paths, 2, true);
    free(paths[0]);
    free(paths[1]);
    return status;
}

stoker_status stoker_dataset_builder_finalize(stoker_dataset_builder *builder, const char *idx_path, stoker_error *err)
{
    struct stk_publish idx = {.fd = -1};
    STK_TRY(stk_builder_check(builder, err));
    if (!idx_path) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "idx_path must be given");
    if (strcmp(idx_path, builder->bin.path) == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s' cannot be the index and the data", idx_path);
    STK_TRY(check_ended(builder, err));
    STK_TRY(finish_data(builder, err));
    STK_TRY(stk_publish_begin(idx_path, &idx, err));
    idx.unsynced = builder->bin.unsynced;
    stoker_status status = write_index(builder, &idx, err);
    if (status == STOKER_OK) {
        status = publish_both(builder, &idx, err);
        builder->finished = status == STOKER_OK || builder->bin.fd < 0;
    }
    stk_publish_abort(&idx);
    return status;
}
