/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops table in front of the kinds: argument checks, digests, the batch layout, and the public entry points.
 */
#include "source/source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"
#include "source/blob.h"
#include "source/source_internal.h"
#include "sys/digest.h"
#include "sys/shmem.h"

static stoker_status digest_fd(int fd, uint8_t out[32], stoker_error *err)
{
    const void *data = NULL;
    size_t size = 0;
    STK_TRY(stk_shmem_blob_map(fd, &data, &size, err));
    stk_sha256(data, size, out);
    stk_shmem_blob_unmap(data, size);
    return STOKER_OK;
}

stoker_status stk_source_init(struct stoker_source *source, const struct stk_source_ops *ops, enum stk_source_kind kind,
                              int blob_fd, int payload_fd, stoker_error *err)
{
    source->ops = ops;
    source->kind = kind;
    source->blob_fd = blob_fd;
    source->payload_fd = payload_fd;
    uint8_t both[64];
    memset(both, 0, sizeof both);
    stoker_status status = digest_fd(blob_fd, both, err);
    if (status == STOKER_OK && payload_fd >= 0) status = digest_fd(payload_fd, both + 32, err);
    if (status < 0) {
        stk_source_fini(source);
        return status;
    }
    stk_sha256(both, sizeof both, source->digest);
    return STOKER_OK;
}

void stk_source_fini(struct stoker_source *source)
{
    if (source->blob_fd >= 0) (void)close(source->blob_fd); /* memory, not a file: nothing can be lost */
    if (source->payload_fd >= 0) (void)close(source->payload_fd);
    source->blob_fd = source->payload_fd = -1;
}

void stk_source_put_header(uint8_t *blob, uint32_t magic, uint32_t version, uint64_t size)
{
    stk_blob_put32(blob, magic);
    stk_blob_put32(blob + 4, version);
    stk_blob_put64(blob + 8, size);
}

stoker_status stk_source_check_header(const uint8_t *blob, size_t size, uint32_t magic, uint32_t version,
                                      stoker_error *err)
{
    if (size < STK_BLOB_HEADER_BYTES)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes, the header alone has %u", size,
                        STK_BLOB_HEADER_BYTES);
    if (stk_blob_get32(blob) != magic)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: magic at offset 0 is %#x, expected %#x",
                        stk_blob_get32(blob), magic);
    if (stk_blob_get32(blob + 4) != version)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "source blob: version %u, expected %u", stk_blob_get32(blob + 4),
                        version);
    if (stk_blob_get64(blob + 8) != size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: size at offset 8 is %llu, the blob has %zu bytes",
                        (unsigned long long)stk_blob_get64(blob + 8), size);
    return STOKER_OK;
}

stoker_status stk_source_open_blob(enum stk_source_kind kind, int blob_fd, int payload_fd,
                                   struct stoker_source **out_source, stoker_error *err)
{
    switch (kind) {
    case STK_SOURCE_MEDIA: return stk_media_source_open(blob_fd, payload_fd, out_source, err);
    case STK_SOURCE_PROCESS: return stk_process_source_open(blob_fd, payload_fd, out_source, err);
    case STK_SOURCE_TOKENS: return stk_token_source_open(blob_fd, payload_fd, out_source, err);
    }
    if (blob_fd >= 0) (void)close(blob_fd);
    if (payload_fd >= 0) (void)close(payload_fd);
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "source kind %d is not known", (int)kind);
}

void stk_source_leaves(const struct stoker_source *source, struct stk_sample_leaves *out)
{
    stoker_descriptor sample = {0};
    memset(out, 0, sizeof *out);
    if (source->leaf_ops) {
        source->leaf_ops->leaves(source, out);
        return;
    }
    /* All samples have one form, and the id is one of the source's: nothing can fail. */
    STK_ASSERT(source->ops->describe(source, 0, &sample, NULL) == STOKER_OK);
    STK_ASSERT(sample.ndim < STK_DIMS_MAX);
    out->count = 1;
    out->leaf[0].dtype = (uint32_t)sample.dtype;
    out->leaf[0].ndim = sample.ndim;
    memcpy(out->leaf[0].shape, sample.shape, sample.ndim * sizeof *sample.shape);
    out->leaf[0].bytes = sample.sample_bytes;
}

bool stk_source_is_ragged(const struct stoker_source *source) { return source->leaf_ops && source->leaf_ops->rows; }

uint64_t stk_source_rows(const struct stoker_source *source, uint64_t id)
{
    return stk_source_is_ragged(source) ? source->leaf_ops->rows(source, id) : 0;
}

static bool place_leaf(const struct stk_sample_leaf *leaf, const struct stk_batch_extent *extent, uint32_t i,
                       struct stk_batch_layout *out)
{
    struct stk_message_leaf *to = &out->leaves[i];
    const uint64_t count = leaf->ragged ? extent->rows : extent->samples;
    const uint32_t lead = leaf->ragged ? 0 : 1; /* a row is counted by its own first dimension */
    size_t size, end;
    if (!stk_mul_size((size_t)count, (size_t)leaf->bytes, &size) ||
        !stk_add_size((size_t)out->total_bytes, STK_LEAF_ALIGNMENT - 1, &end))
        return false;
    to->dtype = leaf->dtype;
    to->ndim = leaf->ndim + lead;
    to->shape[0] = count;
    memcpy(to->shape + 1, leaf->shape + (1 - lead), (leaf->ndim - (1 - lead)) * sizeof *leaf->shape);
    to->offset = stk_align_up(out->total_bytes, STK_LEAF_ALIGNMENT);
    to->size = size;
    if (!stk_add_size((size_t)to->offset, size, &end)) return false;
    out->leaf_bytes[i] = leaf->ragged ? 0 : leaf->bytes;
    out->row_bytes[i] = leaf->ragged ? leaf->bytes : 0;
    out->sample_bytes += leaf->ragged ? size / extent->samples : leaf->bytes;
    out->total_bytes = end;
    return true;
}

static stoker_status lay_out(const struct stoker_source *source, const struct stk_batch_extent *extent,
                             struct stk_batch_layout *out, stoker_error *err)
{
    struct stk_sample_leaves leaves;
    if (extent->samples < 1 || extent->samples > STK_BATCH_SAMPLES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a batch of %llu samples, expected 1 to %u",
                        (unsigned long long)extent->samples, STK_BATCH_SAMPLES_MAX);
    if (stoker_source_count(source) == 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the source has no samples");
    stk_source_leaves(source, &leaves);
    STK_ASSERT(leaves.count <= STK_NATIVE_LEAVES_MAX);
    memset(out, 0, sizeof *out);
    out->leaf_count = leaves.count;
    for (uint32_t i = 0; i < leaves.count; i++)
        if (!place_leaf(&leaves.leaf[i], extent, i, out))
            return stk_fail(err, STOKER_ERR_LIMIT, "a batch of %llu samples of %llu bytes is too large",
                            (unsigned long long)extent->samples, (unsigned long long)leaves.leaf[i].bytes);
    return STOKER_OK;
}

stoker_status stk_source_layout(const struct stoker_source *source, uint64_t n, struct stk_batch_layout *out,
                                stoker_error *err)
{
    struct stk_batch_extent extent = {n, 0};
    if (stk_source_is_ragged(source) && stoker_source_count(source) > 0) {
        uint64_t most = source->leaf_ops->rows_max(source);
        size_t rows;
        if (!stk_mul_size((size_t)n, (size_t)most, &rows))
            return stk_fail(err, STOKER_ERR_LIMIT, "a batch of %llu samples of %llu rows is too large",
                            (unsigned long long)n, (unsigned long long)most);
        extent.rows = rows;
    }
    return lay_out(source, &extent, out, err);
}

stoker_status stk_source_layout_rows(const struct stoker_source *source, const struct stk_batch_extent *extent,
                                     struct stk_batch_layout *out, stoker_error *err)
{
    STK_ASSERT(stk_source_is_ragged(source) || extent->rows == 0);
    return lay_out(source, extent, out, err);
}

void stk_batch_places(const struct stk_batch_layout *layout, void *base, uint64_t index,
                      void *out_places[STK_NATIVE_LEAVES_MAX])
{
    const struct stk_batch_place place = {index, 0};
    stk_batch_places_rows(layout, base, &place, out_places);
}

void stk_batch_places_rows(const struct stk_batch_layout *layout, void *base, const struct stk_batch_place *place,
                           void *out_places[STK_NATIVE_LEAVES_MAX])
{
    for (uint32_t i = 0; i < layout->leaf_count; i++)
        out_places[i] = (uint8_t *)base + layout->leaves[i].offset + place->index * layout->leaf_bytes[i] +
                        place->row * layout->row_bytes[i];
}

stoker_status stk_source_make(const struct stoker_source *source, const stoker_sample *sample, void *const *places,
                              struct stk_made *out_made, stoker_error *err)
{
    if (source->leaf_ops) return source->leaf_ops->materialise(source, sample, places, out_made, err);
    return source->ops->materialise(source, sample, places[0], out_made, err);
}

stoker_status stk_source_process(const struct stoker_source *source, struct stk_process_source *out, stoker_error *err)
{
    if (source->kind != STK_SOURCE_PROCESS)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the source is not served by a process of its own");
    return stk_process_source_view(source, out, err);
}

uint64_t stoker_source_count(const stoker_source *source) { return source ? source->ops->count(source) : 0; }

static stoker_status check_id(const stoker_source *source, uint64_t id, stoker_error *err)
{
    uint64_t count = source->ops->count(source);
    if (id < count) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "sample %llu is asked for, the source has %llu",
                    (unsigned long long)id, (unsigned long long)count);
}

stoker_status stoker_source_describe(const stoker_source *source, uint64_t id, stoker_descriptor *out_descriptor,
                                     stoker_error *err)
{
    if (!source || !out_descriptor)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "source and out_descriptor must be given");
    if (source->kind == STK_SOURCE_PROCESS)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "samples of a process source are not known before they are made");
    STK_TRY(check_id(source, id, err));
    return source->ops->describe(source, id, out_descriptor, err);
}

stoker_status stoker_source_materialise(const stoker_source *source, uint64_t id, void *dst, stoker_error *err)
{
    const stoker_sample sample = {id, 0};
    return stoker_source_make(source, &sample, dst, err);
}

stoker_status stoker_source_make(const stoker_source *source, const stoker_sample *sample, void *dst, stoker_error *err)
{
    struct stk_made made;
    if (!source || !sample || !dst)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "source, sample and dst must be given");
    if (source->kind == STK_SOURCE_PROCESS)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "samples of a process source are made by its own processes");
    struct stk_batch_layout layout;
    void *places[STK_NATIVE_LEAVES_MAX] = {NULL};
    STK_TRY(check_id(source, sample->id, err));
    const struct stk_batch_extent extent = {1, stk_source_rows(source, sample->id)};
    STK_TRY(stk_source_layout_rows(source, &extent, &layout, err));
    stk_batch_places(&layout, dst, 0, places);
    return stk_source_make(source, sample, places, &made, err);
}

uint64_t stoker_sample_draw(const stoker_draw_key *key)
{
    return key ? stk_rng_draw(key->seed, key->epoch, key->id, key->occurrence) : 0;
}

const char *stoker_source_member(const stoker_source *source, size_t index)
{
    struct stk_sample_leaves leaves;
    if (!source || !source->leaf_ops) return NULL;
    stk_source_leaves(source, &leaves);
    return index < leaves.count ? leaves.leaf[index].name : NULL;
}

void stoker_source_close(stoker_source *source)
{
    if (source) source->ops->close(source);
}
