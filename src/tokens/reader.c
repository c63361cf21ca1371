/* SPDX-License-Identifier: Apache-2.0
 *
 * Open indexed datasets: see stoker/dataset.h. Nothing is kept open but mappings, so that 10,000 datasets need no
 * descriptor; nothing is locked, so that threads and forked children read at once.
 */
#include "tokens/reader_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "tokens/convert.h"

enum { RETRIES_DEFAULT = 3 }; /* as Megatron-LM's file reader, also its first delay */
#define FILE_DELAY_NS (10 * STK_SECOND_NS)
#define OBJECT_DELAY_NS (STK_SECOND_NS / 5)

static char *path_of(const char *prefix, const char *extension)
{
    size_t size = strlen(prefix) + strlen(extension) + 1;
    char *path = malloc(size);
    if (path) (void)snprintf(path, size, "%s%s", prefix, extension);
    return path;
}

static stoker_status check_options(const stoker_dataset_options *options, stoker_error *err)
{
    if (options->struct_size != sizeof *options)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "dataset options of %u bytes; this library knows %zu",
                        options->struct_size, sizeof *options);
    if (options->access != STOKER_DATASET_MMAP && options->access != STOKER_DATASET_FILE &&
        options->access != STOKER_DATASET_OBJECT)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "access %d is not known", (int)options->access);
    if (options->sequences > 0 && options->document_entries == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%llu sequences are given without document_entries",
                        (unsigned long long)options->sequences);
    if (options->document_entries > 0 && stoker_token_dtype_size(options->dtype_code) == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "counts are given, so the header is not read: dtype_code must be 1 to 8, not %d",
                        options->dtype_code);
    return STOKER_OK;
}

static struct stk_range_retry retry_of(const stoker_dataset_options *options)
{
    struct stk_range_retry retry = {RETRIES_DEFAULT, options->retry_delay_ns};
    if (options->open_retries != 0) retry.retries = options->open_retries < 0 ? 0 : (uint32_t)options->open_retries;
    if (retry.delay_ns == 0)
        retry.delay_ns = options->access == STOKER_DATASET_OBJECT ? OBJECT_DELAY_NS : FILE_DELAY_NS;
    return retry;
}

static stoker_status open_bin(stoker_dataset *dataset, const stoker_dataset_options *options, stoker_error *err)
{
    struct stk_range *range = NULL;
    struct stk_bin *bin = NULL;
    if (options->access == STOKER_DATASET_MMAP) {
        if (options->unchecked) return STOKER_OK; /* at the first read */
        STK_TRY(stk_bin_map(dataset->bin_path, dataset->retry, &bin, err));
    } else {
        if (options->access == STOKER_DATASET_FILE)
            STK_TRY(stk_range_open_path(dataset->bin_path, dataset->retry, &range, err));
        else
            STK_TRY(stk_remote_bin(dataset->bin_path, options, dataset->retry, &range, err));
        STK_TRY(stk_bin_of_range(range, !options->unchecked, &bin, err));
    }
    atomic_store_explicit(&dataset->bin, bin, memory_order_release);
    return STOKER_OK;
}

static stoker_status open_all(stoker_dataset *dataset, const char *prefix, const stoker_dataset_options *options,
                              stoker_error *err)
{
    struct stk_index_layout counts = {.sequences = options->sequences,
                                      .document_entries = options->document_entries,
                                      .dtype_code = options->dtype_code};
    dataset->retry = retry_of(options);
    dataset->unchecked = options->unchecked != 0;
    dataset->options = *options;
    dataset->options.index_cache_dir = NULL;
    dataset->options.ranges = NULL;
    dataset->options.object = NULL;
    dataset->bin_path = path_of(prefix, ".bin");
    if (!dataset->bin_path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open '%s'", prefix);
    if (options->access == STOKER_DATASET_OBJECT) {
        STK_TRY(stk_remote_index(prefix, options, dataset->retry, &dataset->idx_path, err));
    } else {
        dataset->idx_path = path_of(prefix, ".idx");
        if (!dataset->idx_path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open '%s'", prefix);
    }
    STK_TRY(stk_index_file_load(dataset->idx_path, options->multimodal != 0,
                                options->document_entries > 0 ? &counts : NULL, &dataset->index, err));
    dataset->view = stk_index_view_of(&dataset->index.layout, dataset->index.data);
    STK_TRY(open_bin(dataset, options, err));
    if (dataset->unchecked) return STOKER_OK;
    const struct stk_bin *bin = atomic_load_explicit(&dataset->bin, memory_order_relaxed); /* stored by this thread */
    struct stk_index_bounds bounds = {bin->size, dataset->idx_path, dataset->bin_path, false};
    return stk_index_check(&dataset->view, &bounds, NULL, err);
}

stoker_status stoker_dataset_open(const char *prefix, const stoker_dataset_options *options,
                                  stoker_dataset **out_dataset, stoker_error *err)
{
    static const stoker_dataset_options defaults = STOKER_DATASET_OPTIONS_INIT;
    if (!prefix || !out_dataset)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "prefix and out_dataset must be given");
    if (!options) options = &defaults;
    STK_TRY(check_options(options, err));
    stoker_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open '%s'", prefix);
    atomic_init(&dataset->references, 1);
    stoker_status status = open_all(dataset, prefix, options, err);
    if (status < 0)
        stoker_dataset_close(dataset);
    else
        *out_dataset = dataset;
    return status;
}

stoker_dataset *stoker_dataset_ref(stoker_dataset *dataset)
{
    /* Relaxed: the caller holds a reference, so the count cannot reach zero meanwhile. */
    (void)atomic_fetch_add_explicit(&dataset->references, 1, memory_order_relaxed);
    return dataset;
}

void stoker_dataset_close(stoker_dataset *dataset)
{
    if (!dataset) return;
    /* Release and acquire: what any thread did with the dataset comes before its end. */
    if (atomic_fetch_sub_explicit(&dataset->references, 1, memory_order_acq_rel) > 1) return;
    stk_bin_close(atomic_load_explicit(&dataset->bin, memory_order_relaxed));
    stk_index_file_unload(&dataset->index);
    free(dataset->idx_path);
    free(dataset->bin_path);
    free(dataset);
}

stoker_status stk_dataset_bin(stoker_dataset *dataset, const struct stk_bin **out_bin, stoker_error *err)
{
    /* Acquire: what the thread that opened it wrote is seen. */
    struct stk_bin *bin = atomic_load_explicit(&dataset->bin, memory_order_acquire);
    if (!bin) {
        struct stk_bin *made = NULL;
        STK_TRY(stk_bin_map(dataset->bin_path, dataset->retry, &made, err));
        if (atomic_compare_exchange_strong_explicit(&dataset->bin, &bin, made, memory_order_acq_rel,
                                                    memory_order_acquire))
            bin = made;
        else
            stk_bin_close(made); /* another thread was first */
    }
    *out_bin = bin;
    return STOKER_OK;
}

void stoker_dataset_get_facts(const stoker_dataset *dataset, stoker_dataset_facts *out_facts)
{
    const struct stk_bin *bin = atomic_load_explicit(&dataset->bin, memory_order_acquire);
    *out_facts = (stoker_dataset_facts){
        .sequences = dataset->view.sequences,
        .document_entries = dataset->view.document_entries,
        .dtype_code = dataset->index.layout.dtype_code,
        .bin_bytes = bin && bin->size != UINT64_MAX ? bin->size : 0,
        .lengths = dataset->view.lengths,
        .offsets = dataset->view.offsets,
        .documents = dataset->view.documents,
        .modes = dataset->view.modes,
        .bin = bin ? bin->data : NULL,
    };
}

/* Where a run lies in PREFIX.bin. */
static stoker_status locate(const stoker_dataset *dataset, const struct stk_bin *bin, stoker_dataset_run run,
                            uint64_t *out_start, size_t *out_bytes, stoker_error *err)
{
    const struct stk_index_view *view = &dataset->view;
    uint64_t skipped, start, bytes, end;
    int64_t offset = stk_index_offset(view, run.sequence);
    if (offset < 0 || __builtin_mul_overflow(run.first, view->element_bytes, &skipped) ||
        __builtin_add_overflow((uint64_t)offset, skipped, &start) ||
        __builtin_mul_overflow(run.count, view->element_bytes, &bytes) || __builtin_add_overflow(start, bytes, &end) ||
        end > (bin->size < INT64_MAX ? bin->size : INT64_MAX))
        return stk_fail(err, STOKER_ERR_CORRUPT,
                        "'%s' ends at byte %llu: %llu elements of %zu bytes from element %llu of sequence %llu (offset "
                        "%lld) pass it",
                        dataset->bin_path, (unsigned long long)bin->size, (unsigned long long)run.count,
                        view->element_bytes, (unsigned long long)run.first, (unsigned long long)run.sequence,
                        (long long)offset);
    *out_start = start;
    *out_bytes = (size_t)bytes;
    return STOKER_OK;
}

/* Either *out_view, or the place and size to read. */
static stoker_status prepare(const stoker_dataset *dataset, stoker_dataset_run run, const struct stk_bin **out_bin,
                             uint64_t *out_start, size_t *out_bytes, stoker_error *err)
{
    if (run.sequence >= dataset->view.sequences)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sequence %llu is not in '%s', which has %llu",
                        (unsigned long long)run.sequence, dataset->bin_path,
                        (unsigned long long)dataset->view.sequences);
    /* Opening at the first use is the only change to a dataset, and it is synchronised. */
    STK_TRY(stk_dataset_bin((stoker_dataset *)(uintptr_t)dataset, out_bin, err));
    return locate(dataset, *out_bin, run, out_start, out_bytes, err);
}

static stoker_status read_range(const stoker_dataset *dataset, const struct stk_bin *bin, stoker_dataset_run run,
                                uint64_t start, size_t bytes, void *out, stoker_error *err)
{
    stoker_status status = stk_range_read(bin->range, start, bytes, out, err);
    if (status < 0)
        stk_error_context(err, "sequence %llu of '%s'", (unsigned long long)run.sequence, dataset->idx_path);
    return status;
}

stoker_status stoker_dataset_read(const stoker_dataset *dataset, stoker_dataset_run run, void *out, stoker_error *err)
{
    const struct stk_bin *bin = NULL;
    uint64_t start = 0;
    size_t bytes = 0;
    STK_TRY(prepare(dataset, run, &bin, &start, &bytes, err));
    if (bytes == 0) return STOKER_OK;
    if (!bin->data) return read_range(dataset, bin, run, start, bytes, out, err);
    memcpy(out, bin->data + start, bytes);
    return STOKER_OK;
}

stoker_status stoker_dataset_read_int64(const stoker_dataset *dataset, stoker_dataset_run run, int64_t *out,
                                        stoker_error *err)
{
    const struct stk_bin *bin = NULL;
    uint64_t start = 0;
    size_t bytes = 0;
    STK_TRY(prepare(dataset, run, &bin, &start, &bytes, err));
    if (bytes == 0) return STOKER_OK;
    stoker_elements elements = {bin->data ? bin->data + start : NULL, run.count, dataset->index.layout.dtype_code};
    if (!bin->data) {
        /* Read into the tail of `out`: converted from the front, no element is overwritten before it was taken. */
        uint8_t *tail = (uint8_t *)out + ((size_t)run.count * sizeof *out - bytes);
        STK_TRY(read_range(dataset, bin, run, start, bytes, tail, err));
        elements.data = tail;
    }
    stk_elements_to_int64(elements, out);
    return STOKER_OK;
}

stoker_status stoker_dataset_verify(const stoker_dataset *dataset, uint64_t *out_sequence, stoker_error *err)
{
    const struct stk_bin *bin = NULL;
    uint64_t sequence = UINT64_MAX;
    stoker_status status = stk_dataset_bin((stoker_dataset *)(uintptr_t)dataset, &bin, err);
    if (status == STOKER_OK) {
        struct stk_index_bounds bounds = {bin->size, dataset->idx_path, dataset->bin_path, true};
        if (bin->size == UINT64_MAX) status = stk_range_size(bin->range, &bounds.bin_bytes, err);
        if (status == STOKER_OK) status = stk_index_check(&dataset->view, &bounds, &sequence, err);
    }
    if (status < 0 && out_sequence) *out_sequence = sequence;
    return status;
}
