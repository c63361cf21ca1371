/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that are served by processes of another language: how to start their template, and the dataset that it loads.
 *
 * The blob (little-endian): header of 16 bytes; number of samples (8); number of arguments (4) and of environment
 * entries (4); then their texts and the working directory (empty: none), each ended by a zero byte, in this order. The
 * payload is a blob of its own, whose bytes mean nothing here.
 *
 * Docs: docs/reference/source-blobs.md.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "source/blob.h"
#include "source/source_internal.h"
#include "sys/shmem.h"

#define MAGIC 0x504b5453u /* "STKP" in a dump */
#define VERSION 1u
#define COUNT_AT STK_BLOB_HEADER_BYTES
#define ARGUMENTS_AT (COUNT_AT + 8u)
#define ENTRIES_AT (ARGUMENTS_AT + 4u)
#define TEXT_AT (ENTRIES_AT + 4u)
/* exec allows 2 MiB of arguments and environment by default; these bounds are past what can be started. */
#define ARGUMENTS_MAX 4096u
#define ENTRIES_MAX 65536u
#define TEXT_BYTES_MAX ((size_t)16 << 20)

struct process_source {
    struct stoker_source base;
    const uint8_t *blob;
    size_t blob_size;
    uint64_t count;
    const char **argv, **envp; /* into the blob, NULL-terminated */
    const char *cwd;           /* NULL: none */
};

/* ---------------------------------------------------------------------------------------------------------------- blob
 */

static stoker_status check_blob(const uint8_t *blob, size_t size, stoker_error *err)
{
    STK_TRY(stk_source_check_header(blob, size, MAGIC, VERSION, err));
    if (size < TEXT_AT || size - TEXT_AT > TEXT_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes, expected %u to %zu", size, TEXT_AT,
                        TEXT_AT + TEXT_BYTES_MAX);
    uint32_t arguments = stk_blob_get32(blob + ARGUMENTS_AT), entries = stk_blob_get32(blob + ENTRIES_AT);
    if (arguments < 1 || arguments > ARGUMENTS_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %u arguments at offset %u, expected 1 to %u", arguments,
                        ARGUMENTS_AT, ARGUMENTS_MAX);
    if (entries > ENTRIES_MAX)
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "source blob: %u environment entries at offset %u, expected at most %u", entries, ENTRIES_AT,
                        ENTRIES_MAX);
    const uint8_t *at = blob + TEXT_AT, *end = blob + size;
    for (uint32_t i = 0; i < arguments + entries + 1; i++) {
        const uint8_t *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero)
            return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: text %u at offset %zu has no end", i,
                            (size_t)(at - blob));
        if (i == 0 && zero == at) return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: the program's name is empty");
        at = zero + 1;
    }
    if (at != end)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: the texts end at offset %zu of %zu", (size_t)(at - blob),
                        size);
    return STOKER_OK;
}

stoker_status stk_process_source_check(const uint8_t *blob, size_t size, stoker_error *err)
{
    return check_blob(blob, size, err);
}

static size_t list_size(const char *const *list, uint32_t *out_count)
{
    size_t total = 0;
    uint32_t count = 0;
    for (; list && list[count] && count <= ENTRIES_MAX; count++) total += strlen(list[count]) + 1;
    *out_count = count;
    return total;
}

static uint8_t *put_list(uint8_t *at, const char *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(list[i]) + 1;
        memcpy(at, list[i], length);
        at += length;
    }
    return at;
}

static stoker_status make_blob(const stoker_process_spec *spec, int *out_fd, stoker_error *err)
{
    uint32_t arguments = 0, entries = 0;
    const char *cwd[] = {spec->cwd ? spec->cwd : ""};
    size_t size = TEXT_AT + list_size(spec->argv, &arguments) + list_size(spec->envp, &entries) + strlen(cwd[0]) + 1;
    if (arguments < 1 || arguments > ARGUMENTS_MAX || entries > ENTRIES_MAX || size - TEXT_AT > TEXT_BYTES_MAX ||
        !spec->argv[0][0])
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "%u arguments and %u environment entries of %zu bytes: expected 1 to %u, "
                        "at most %u, at most %zu, and a program name",
                        arguments, entries, size - TEXT_AT, ARGUMENTS_MAX, ENTRIES_MAX, TEXT_BYTES_MAX);
    uint8_t *blob = malloc(size);
    if (!blob) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes", size);
    stk_source_put_header(blob, MAGIC, VERSION, size);
    stk_blob_put64(blob + COUNT_AT, spec->count);
    stk_blob_put32(blob + ARGUMENTS_AT, arguments);
    stk_blob_put32(blob + ENTRIES_AT, entries);
    uint8_t *at = put_list(blob + TEXT_AT, spec->argv, arguments);
    at = put_list(at, spec->envp, entries);
    at = put_list(at, cwd, 1);
    STK_ASSERT(at == blob + size);
    stoker_status status = stk_shmem_blob_create(blob, size, out_fd, err);
    free(blob);
    return status;
}

stoker_status stoker_source_create_process(const stoker_process_spec *spec, stoker_source **out_source,
                                           stoker_error *err)
{
    if (!spec || !out_source || !spec->argv || (spec->payload_size && !spec->payload))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "spec, its argv and out_source must be given");
    int blob_fd = -1, payload_fd = -1;
    STK_TRY(make_blob(spec, &blob_fd, err));
    stoker_status status = stk_shmem_blob_create(spec->payload, spec->payload_size, &payload_fd, err);
    if (status < 0) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = -1};
        stk_source_fini(&unused);
        return status;
    }
    return stk_process_source_open(blob_fd, payload_fd, out_source, err);
}

/* ---------------------------------------------------------------------------------------------------------------- use
 */

static const struct process_source *of(const struct stoker_source *source)
{
    STK_ASSERT(source->kind == STK_SOURCE_PROCESS);
    return (const struct process_source *)source;
}

static uint64_t count_samples(const struct stoker_source *source) { return of(source)->count; }

static stoker_status describe_nothing(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                      stoker_error *err)
{
    (void)source, (void)id, (void)out;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "samples of a process source are not known before they are made");
}

static stoker_status materialise_nothing(const struct stoker_source *source, const stoker_sample *sample, void *dst,
                                         struct stk_made *out_made, stoker_error *err)
{
    (void)source, (void)sample, (void)dst, (void)out_made;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "samples of a process source are made by its own processes");
}

static void close_process(struct stoker_source *source)
{
    struct process_source *process = (struct process_source *)source;
    if (process->blob) stk_shmem_blob_unmap(process->blob, process->blob_size);
    free(process->argv);
    free(process->envp);
    stk_source_fini(source);
    free(process);
}

static const struct stk_source_ops process_ops = {count_samples, describe_nothing, materialise_nothing, close_process};

static const char *point_list(const char *at, const char **list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i] = at;
        at += strlen(at) + 1;
    }
    list[count] = NULL;
    return at;
}

static stoker_status fill(struct process_source *process, stoker_error *err)
{
    const uint8_t *blob = process->blob;
    STK_TRY(check_blob(blob, process->blob_size, err));
    uint32_t arguments = stk_blob_get32(blob + ARGUMENTS_AT), entries = stk_blob_get32(blob + ENTRIES_AT);
    process->argv = calloc((size_t)arguments + 1, sizeof *process->argv);
    process->envp = calloc((size_t)entries + 1, sizeof *process->envp);
    if (!process->argv || !process->envp) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    const char *at = point_list((const char *)blob + TEXT_AT, process->argv, arguments);
    at = point_list(at, process->envp, entries);
    process->cwd = at[0] ? at : NULL;
    process->count = stk_blob_get64(blob + COUNT_AT);
    return STOKER_OK;
}

stoker_status stk_process_source_open(int blob_fd, int payload_fd, struct stoker_source **out_source, stoker_error *err)
{
    const void *blob = NULL;
    struct process_source *process = calloc(1, sizeof *process);
    if (!process) {
        struct stoker_source unused = {.blob_fd = blob_fd, .payload_fd = payload_fd};
        stk_source_fini(&unused);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stoker_status status = stk_source_init(&process->base, &process_ops, STK_SOURCE_PROCESS, blob_fd, payload_fd, err);
    if (status == STOKER_OK && payload_fd < 0)
        status = stk_fail(err, STOKER_ERR_CORRUPT, "a process source came without its payload");
    if (status == STOKER_OK) status = stk_shmem_blob_map(blob_fd, &blob, &process->blob_size, err);
    if (status == STOKER_OK) {
        process->blob = blob;
        status = fill(process, err);
    }
    if (status < 0) {
        close_process(&process->base);
        return status;
    }
    *out_source = &process->base;
    return STOKER_OK;
}

stoker_status stk_process_source_view(const struct stoker_source *source, struct stk_process_source *out,
                                      stoker_error *err)
{
    (void)err; /* everything was checked at open */
    const struct process_source *process = of(source);
    *out = (struct stk_process_source){process->argv, process->envp, process->cwd, source->payload_fd};
    return STOKER_OK;
}
