/* SPDX-License-Identifier: Apache-2.0
 *
 * What each message holds, field by field, and the properties that both sides rely on: see message.h. Every function
 * <name>_fields() is walked to count, to write and to read (codec_internal.h), so that the order below is the wire
 * format.
 */
#include "wire/message.h"

#include "base/assert.h"
#include "base/error.h"
#include "wire/codec_internal.h"

#define STATUS_TEXT_BYTES_MAX (8u << 20) /* a JSON object over 1,024 lanes, workers and quarantined slabs */

static void text_field(struct stk_codec *codec, const char *field, struct stk_span *text)
{
    stk_codec_bytes(codec, field, text, 0, STK_TEXT_BYTES_MAX);
}

static void detail_field(struct stk_codec *codec, struct stk_span *detail)
{
    stk_codec_bytes(codec, "detail", detail, 0, STK_DETAIL_BYTES_MAX);
}

static void bounded_u32(struct stk_codec *codec, const char *field, uint32_t *value, uint32_t max, const char *expected)
{
    stk_codec_u32(codec, field, value);
    stk_codec_require(codec, *value <= max, field, *value, expected);
}

static void require_hex(struct stk_codec *codec, const char *field, struct stk_span text)
{
    const uint8_t *at = text.data;
    for (size_t i = 0; i < text.size; i++) {
        bool digit = (at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f');
        stk_codec_require(codec, digit, field, at[i], "lower-case hexadecimal digits (value: the byte that is none)");
    }
}

/* `size` bytes at `offset` lie inside `whole` bytes. */
static bool range_inside(uint64_t offset, uint64_t size, uint64_t whole)
{
    return size <= whole && offset <= whole - size;
}

static void hello_fields(struct stk_codec *codec, struct stk_message_hello *m)
{
    stk_codec_bytes(codec, "key", &m->key, 64, 64);
    require_hex(codec, "key", m->key);
    stk_codec_bytes(codec, "version", &m->version, 1, STK_TEXT_BYTES_MAX);
    stk_codec_u32(codec, "rank", &m->rank);
    stk_codec_u32(codec, "world_size", &m->world_size);
    stk_codec_require(codec, m->rank < m->world_size, "rank", m->rank, "below world_size");
    stk_codec_u32(codec, "local_rank", &m->local_rank);
    bounded_u32(codec, "local_world_size", &m->local_world_size, STK_RANKS_MAX, "at most 256 ranks on a host");
    stk_codec_require(codec, m->local_rank < m->local_world_size, "local_rank", m->local_rank,
                      "below local_world_size");
    stk_codec_i64(codec, "pid", &m->pid);
    stk_codec_require(codec, m->pid > 0 && m->pid <= INT32_MAX, "pid", (uint64_t)m->pid, "a process id");
    stk_codec_bytes(codec, "cpu_mask", &m->cpu_mask, 0, STK_CPU_MASK_BYTES_MAX);
}

static void loader_open_fields(struct stk_codec *codec, struct stk_message_loader_open *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "kind", &m->kind);
    stk_codec_require(codec, m->kind >= STK_SOURCE_MEDIA && m->kind <= STK_SOURCE_TOKENS, "kind", m->kind,
                      "a source kind, 1 to 3");
    stk_codec_u32(codec, "order", &m->order);
    bounded_u32(codec, "num_workers", &m->num_workers, STK_WORKERS_MAX, "at most 1024 workers");
    bounded_u32(codec, "batch_samples_max", &m->batch_samples_max, STK_BATCH_SAMPLES_MAX, "at most 65536 samples");
    bounded_u32(codec, "on_error", &m->on_error, 2, "0 (raise), 1 (skip) or 2 (replace)");
    stk_codec_u32(codec, "retries", &m->retries);
    stk_codec_u64(codec, "max_bytes", &m->max_bytes);
    stk_codec_u64(codec, "sample_bytes", &m->sample_bytes);
    stk_codec_require(codec, m->kind != STK_SOURCE_PROCESS || m->sample_bytes == 0, "sample_bytes", m->sample_bytes,
                      "0 for a process source");
    stk_codec_u64(codec, "stall_limit_ns", &m->stall_limit_ns);
    text_field(codec, "name", &m->name);
    stk_codec_bytes(codec, "digest", &m->digest, 32, 32);
    bounded_u32(codec, "isolation", &m->isolation, 2, "0 (auto), 1 (on) or 2 (off)");
    stk_codec_u64(codec, "worker_bytes", &m->worker_bytes);
    stk_codec_u64(codec, "sample_cpu_ns", &m->sample_cpu_ns);
    text_field(codec, "quarantine", &m->quarantine);
    stk_codec_bytes(codec, "profile", &m->profile, 0, (size_t)STK_COST_ROW_BYTES * STK_COST_ROWS_MAX);
    stk_codec_require(codec, m->profile.size % STK_COST_ROW_BYTES == 0, "profile", m->profile.size,
                      "a multiple of 80 bytes");
}

static void loader_ref_fields(struct stk_codec *codec, struct stk_message_loader_ref *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
}

static void request_fields(struct stk_codec *codec, struct stk_message_request *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "sequence", &m->sequence);
    stk_codec_bytes(codec, "ids", &m->ids, 0, 8 * (size_t)STK_BATCH_SAMPLES_MAX);
    stk_codec_require(codec, m->ids.size % 8 == 0, "ids", m->ids.size, "a multiple of 8 bytes");
    stk_codec_bytes(codec, "payload", &m->payload, 0, STK_PAYLOAD_BYTES_MAX);
    stk_codec_require(codec, (m->ids.size == 0) != (m->payload.size == 0), "payload", m->payload.size,
                      "either ids or a payload (its size in bytes)");
    stk_codec_bytes(codec, "draws", &m->draws, 0, 8 * (size_t)STK_BATCH_SAMPLES_MAX);
    size_t whole = m->ids.size ? m->ids.size : STK_PART_BYTES;
    stk_codec_require(codec, m->draws.size == 0 || m->draws.size == whole, "draws", m->draws.size,
                      "nothing, or as many bytes as ids, or 16 with a payload");
    stk_codec_u32(codec, "samples", &m->samples);
    stk_codec_require(codec, m->samples <= STK_BATCH_SAMPLES_MAX && (m->samples == 0 || m->ids.size == 0), "samples",
                      m->samples, "0 with ids, else at most 65536");
    stk_codec_u64(codec, "estimate_ns", &m->estimate_ns);
}

static void release_fields(struct stk_codec *codec, struct stk_message_release *m)
{
    stk_codec_bytes(codec, "slabs", &m->slabs, 8, 8 * (size_t)STK_BATCHES_MAX);
    stk_codec_require(codec, m->slabs.size % 8 == 0, "slabs", m->slabs.size, "a multiple of 8 bytes");
    const uint8_t *at = m->slabs.data;
    for (size_t i = 0; i + 8 <= m->slabs.size; i += 8)
        stk_codec_require(codec, stk_load_u64(at + i) != 0, "slabs", 0, "slab ids, which are never 0");
}

static void step_fields(struct stk_codec *codec, struct stk_message_step *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "sequence", &m->sequence);
    stk_codec_u64(codec, "wait_ns", &m->wait_ns);
    stk_codec_u64(codec, "window_ns", &m->window_ns);
}

static void welcome_fields(struct stk_codec *codec, struct stk_message_welcome *m)
{
    stk_codec_i64(codec, "pid", &m->pid);
    stk_codec_require(codec, m->pid > 0 && m->pid <= INT32_MAX, "pid", (uint64_t)m->pid, "a process id");
    stk_codec_bytes(codec, "version", &m->version, 1, STK_TEXT_BYTES_MAX);
}

static void verdict_fields(struct stk_codec *codec, struct stk_message_verdict *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_status(codec, "status", &m->status, true);
    text_field(codec, "text", &m->text);
    detail_field(codec, &m->detail);
}

static void region_fields(struct stk_codec *codec, const char *part, struct stk_message_region *m)
{
    codec->part = part;
    stk_codec_u64(codec, "slab_id", &m->slab_id);
    stk_codec_u64(codec, "segment_id", &m->segment_id);
    stk_codec_u64(codec, "segment_bytes", &m->segment_bytes);
    stk_codec_u64(codec, "offset", &m->offset);
    stk_codec_u64(codec, "size", &m->size);
    stk_codec_require(codec, range_inside(m->offset, m->size, m->segment_bytes), "size", m->size,
                      "a range inside the segment");
    bounded_u32(codec, "fd_sent", &m->fd_sent, 1, "0 or 1");
    bool empty =
        m->segment_id == 0 && m->segment_bytes == 0 && m->fd_sent == 0; /* offset and size are 0 by the range */
    stk_codec_require(codec, m->slab_id != 0 || empty, "slab_id", m->slab_id, "a slab, or nothing else set");
    codec->part = "";
}

static uint64_t dtype_bytes(uint32_t dtype)
{
    switch (dtype) {
    case STOKER_DTYPE_UINT8: return 1;
    case STOKER_DTYPE_FLOAT16: return 2;
    case STOKER_DTYPE_BFLOAT16: return 2;
    case STOKER_DTYPE_FLOAT32: return 4;
    case STOKER_DTYPE_INT64: return 8;
    case STOKER_DTYPE_INT16: return 2;
    case STOKER_DTYPE_INT32: return 4;
    case STOKER_DTYPE_BOOL: return 1;
    default: return 0;
    }
}

/* A dimension of 0 makes the product 0 whatever the others are, so it is looked for before anything can overflow. */
static bool leaf_size_is(const struct stk_message_leaf *m, uint64_t size)
{
    size_t product = (size_t)dtype_bytes(m->dtype);
    for (uint32_t i = 0; i < m->ndim; i++)
        if (m->shape[i] == 0) return size == 0;
    for (uint32_t i = 0; i < m->ndim; i++)
        if (!stk_mul_size(product, (size_t)m->shape[i], &product)) return false;
    return product == size;
}

static void leaf_fields(struct stk_codec *codec, struct stk_message_leaf *m, uint64_t region_size)
{
    stk_codec_u32(codec, "dtype", &m->dtype);
    stk_codec_require(codec, dtype_bytes(m->dtype) != 0, "dtype", m->dtype, "a known element type");
    stk_codec_u32(codec, "ndim", &m->ndim);
    stk_codec_require(codec, m->ndim <= STK_DIMS_MAX, "ndim", m->ndim, "at most 8 dimensions");
    if (m->ndim > STK_DIMS_MAX) return; /* refused above: the table ends at 8 */
    for (uint32_t i = 0; i < m->ndim; i++) stk_codec_u64(codec, "shape", &m->shape[i]);
    stk_codec_u64(codec, "offset", &m->offset);
    stk_codec_require(codec, m->offset % STK_LEAF_ALIGNMENT == 0, "offset", m->offset, "a multiple of 256");
    stk_codec_u64(codec, "size", &m->size);
    stk_codec_require(codec, range_inside(m->offset, m->size, region_size), "size", m->size,
                      "a range inside the region");
    stk_codec_require(codec, leaf_size_is(m, m->size), "size", m->size, "the product of element size and shape");
}

static void ready_fields(struct stk_codec *codec, struct stk_message_ready *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "sequence", &m->sequence);
    bounded_u32(codec, "flags", &m->flags, STK_READY_COPY, "0 or 1 (copy)");
    bounded_u32(codec, "samples_skipped", &m->samples_skipped, STK_BATCH_SAMPLES_MAX, "at most 65536");
    stk_codec_u32(codec, "tasks_retried", &m->tasks_retried);
    stk_codec_u64(codec, "ready_ns", &m->ready_ns);
    region_fields(codec, "region.", &m->region);
    stk_codec_u64(codec, "skeleton_offset", &m->skeleton_offset);
    stk_codec_u64(codec, "skeleton_size", &m->skeleton_size);
    stk_codec_require(codec, range_inside(m->skeleton_offset, m->skeleton_size, m->region.size), "skeleton_size",
                      m->skeleton_size, "a range inside the region");
    const uint32_t leaves_max = sizeof m->leaves / sizeof *m->leaves;
    bounded_u32(codec, "leaf_count", &m->leaf_count, leaves_max, "at most 8");
    if (m->leaf_count > leaves_max) return; /* refused above: the table ends there */
    codec->part = "leaves.";
    for (uint32_t i = 0; i < m->leaf_count; i++) leaf_fields(codec, &m->leaves[i], m->region.size);
    codec->part = "";
}

static void failed_fields(struct stk_codec *codec, struct stk_message_failed *m)
{
    stk_codec_u32(codec, "loader_id", &m->loader_id);
    stk_codec_u32(codec, "generation", &m->generation);
    stk_codec_u64(codec, "sequence", &m->sequence);
    stk_codec_status(codec, "status", &m->status, false);
    stk_codec_u32(codec, "tasks_retried", &m->tasks_retried);
    text_field(codec, "text", &m->text);
    detail_field(codec, &m->detail);
}

static void unmap_fields(struct stk_codec *codec, struct stk_message_unmap *m)
{
    stk_codec_u64(codec, "segment_id", &m->segment_id);
}

static void notice_fields(struct stk_codec *codec, struct stk_message_notice *m)
{
    bounded_u32(codec, "level", &m->level, STOKER_LOG_DEBUG, "a log level, 0 to 3");
    stk_codec_bytes(codec, "id", &m->id, 1, STK_TEXT_BYTES_MAX);
    text_field(codec, "text", &m->text);
}

static void status_fields(struct stk_codec *codec, struct stk_message_status *m)
{
    stk_codec_u64(codec, "token", &m->token);
    stk_codec_bytes(codec, "text", &m->text, 0, STATUS_TEXT_BYTES_MAX);
}

static void source_fields(struct stk_codec *codec, struct stk_message_source *m)
{
    stk_codec_u64(codec, "source_id", &m->source_id);
    bounded_u32(codec, "kind", &m->kind, STK_SOURCE_TOKENS, "a source kind, or 0 to drop it");
}

static void task_fields(struct stk_codec *codec, struct stk_message_task *m)
{
    stk_codec_u64(codec, "item_id", &m->item_id);
    stk_codec_u32(codec, "kind", &m->kind);
    stk_codec_require(codec, m->kind >= STK_TASK_MAKE && m->kind <= STK_TASK_BATCH, "kind", m->kind,
                      "a task kind, 1 to 3");
    stk_codec_u32(codec, "attempt", &m->attempt);
    stk_codec_u64(codec, "source_id", &m->source_id);
    stk_codec_u64(codec, "sample_id", &m->sample_id);
    region_fields(codec, "target.", &m->target);
    stk_codec_require(codec, m->kind == STK_TASK_BATCH || m->target.slab_id != 0, "target.slab_id", m->target.slab_id,
                      "a slab, except for a batch task");
    region_fields(codec, "from.", &m->from);
    stk_codec_require(codec, (m->kind == STK_TASK_COPY) == (m->from.slab_id != 0), "from.slab_id", m->from.slab_id,
                      "a slab for a copy task and none for the others");
    stk_codec_require(codec, m->kind != STK_TASK_COPY || m->from.size == m->target.size, "from.size", m->from.size,
                      "the size of the target");
    bool is_batch = m->kind == STK_TASK_BATCH;
    bounded_u32(codec, "samples", &m->samples, STK_BATCH_SAMPLES_MAX, "at most 65536 samples");
    stk_codec_require(codec, is_batch == (m->samples == 0), "samples", m->samples,
                      "none for a batch task and some for the others");
    stk_codec_u32(codec, "index", &m->index);
    stk_codec_require(codec, m->index < m->samples || (is_batch && m->index == 0), "index", m->index, "below samples");
    stk_codec_u32(codec, "from_index", &m->from_index);
    stk_codec_require(codec, m->from_index < m->samples || m->from_index == 0, "from_index", m->from_index,
                      "below samples");
    stk_codec_require(codec, m->kind == STK_TASK_COPY || m->from_index == 0, "from_index", m->from_index,
                      "0 unless for a copy task");
    stk_codec_bytes(codec, "payload", &m->payload, 0, STK_PAYLOAD_BYTES_MAX);
    stk_codec_require(codec, (m->kind == STK_TASK_BATCH) == (m->payload.size != 0), "payload", m->payload.size,
                      "some for a batch task and none for the others (its size in bytes)");
    stk_codec_u64(codec, "draw", &m->draw);
    stk_codec_require(codec, m->kind == STK_TASK_MAKE || m->draw == 0, "draw", m->draw, "0 unless for a make task");
    stk_codec_u64(codec, "rows", &m->rows);
    stk_codec_require(codec, m->kind == STK_TASK_MAKE || m->rows == 0, "rows", m->rows, "0 unless for a make task");
    stk_codec_u64(codec, "row", &m->row);
    stk_codec_require(codec, m->row <= m->rows, "row", m->row, "at most rows");
}

static void need_fields(struct stk_codec *codec, struct stk_message_need *m)
{
    stk_codec_u64(codec, "item_id", &m->item_id);
    stk_codec_u64(codec, "size", &m->size);
}

static void grant_fields(struct stk_codec *codec, struct stk_message_grant *m)
{
    stk_codec_u64(codec, "item_id", &m->item_id);
    stk_codec_status(codec, "status", &m->status, true);
    region_fields(codec, "region.", &m->region);
    stk_codec_require(codec, (m->status == STOKER_OK) == (m->region.slab_id != 0), "region.slab_id", m->region.slab_id,
                      "a slab if the status is OK, else none");
    text_field(codec, "text", &m->text);
}

static void done_fields(struct stk_codec *codec, struct stk_message_done *m)
{
    stk_codec_u64(codec, "item_id", &m->item_id);
    stk_codec_status(codec, "status", &m->status, true);
    stk_codec_u64(codec, "cpu_ns", &m->cpu_ns);
    stk_codec_u64(codec, "wall_ns", &m->wall_ns);
    stk_codec_u64(codec, "bytes_read", &m->bytes_read);
    stk_codec_u64(codec, "used", &m->used);
    stk_codec_u64(codec, "skeleton_offset", &m->skeleton_offset);
    stk_codec_u64(codec, "skeleton_size", &m->skeleton_size);
    stk_codec_require(codec, range_inside(m->skeleton_offset, m->skeleton_size, m->used), "skeleton_size",
                      m->skeleton_size, "a range inside the used bytes");
    bounded_u32(codec, "samples_skipped", &m->samples_skipped, STK_BATCH_SAMPLES_MAX, "at most 65536");
    stk_codec_u64(codec, "frames_presented", &m->frames_presented);
    text_field(codec, "text", &m->text);
    detail_field(codec, &m->detail);
}

static void template_report_fields(struct stk_codec *codec, struct stk_message_template_report *m)
{
    stk_codec_u32(codec, "worker_id", &m->worker_id);
    stk_codec_status(codec, "status", &m->status, true);
    stk_codec_i64(codec, "pid", &m->pid);
    stk_codec_require(codec, m->pid >= 0 && m->pid <= INT32_MAX, "pid", (uint64_t)m->pid, "a process id or 0");
    text_field(codec, "text", &m->text);
    detail_field(codec, &m->detail);
}

/* The walk takes a struct that may be changed, so encoding walks a copy: spans are borrowed, nothing large is moved. */
#define DEFINE_PAIR(name)                                                                                              \
    void stk_##name##_encode(struct stk_writer *writer, const struct stk_message_##name *message)                      \
    {                                                                                                                  \
        struct stk_message_##name copy = *message;                                                                     \
        struct stk_codec codec;                                                                                        \
        stk_codec_write(&codec, #name, writer);                                                                        \
        name##_fields(&codec, &copy);                                                                                  \
    }                                                                                                                  \
    size_t stk_##name##_size(const struct stk_message_##name *message)                                                 \
    {                                                                                                                  \
        struct stk_message_##name copy = *message;                                                                     \
        struct stk_codec codec;                                                                                        \
        stk_codec_count(&codec, #name);                                                                                \
        name##_fields(&codec, &copy);                                                                                  \
        return codec.counted;                                                                                          \
    }                                                                                                                  \
    stoker_status stk_##name##_decode(struct stk_span body, struct stk_message_##name *out, stoker_error *err)         \
    {                                                                                                                  \
        struct stk_message_##name read = {0};                                                                          \
        struct stk_codec codec;                                                                                        \
        stk_codec_read(&codec, #name, body, err);                                                                      \
        name##_fields(&codec, &read);                                                                                  \
        STK_TRY(stk_codec_end(&codec));                                                                                \
        *out = read;                                                                                                   \
        return STOKER_OK;                                                                                              \
    }

DEFINE_PAIR(hello)
DEFINE_PAIR(loader_open)
DEFINE_PAIR(loader_ref)
DEFINE_PAIR(request)
DEFINE_PAIR(release)
DEFINE_PAIR(step)
DEFINE_PAIR(welcome)
DEFINE_PAIR(verdict)
DEFINE_PAIR(ready)
DEFINE_PAIR(failed)
DEFINE_PAIR(unmap)
DEFINE_PAIR(notice)
DEFINE_PAIR(status)
DEFINE_PAIR(source)
DEFINE_PAIR(task)
DEFINE_PAIR(need)
DEFINE_PAIR(grant)
DEFINE_PAIR(done)
DEFINE_PAIR(template_report)
