/* SPDX-License-Identifier: Apache-2.0
 *
 * Journal of an engine: see journal.h. Fields are listed once, in the order of the format; writer, reader and digest
 * walk the lists. Order and numbers of the lists are the format: new fields go to the end, with a new version.
 */
#include "sched/journal.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define MAGIC "STKJRNL"
enum { MAGIC_BYTES = 8, TAG_STEP = 1, TAG_END = 2 };
#define NOW_NS_MAX (UINT64_C(1) << 62)
#define VARINT_BYTES_MAX 10u

#define LIMIT_FIELDS(F) F(servers) F(lanes) F(tasks) F(hosts) F(jobs) F(links) F(models)
#define OPTION_FIELDS(F)                                                                                               \
    F(place.policy)                                                                                                    \
    F(place.miss_weight)                                                                                               \
    F(place.gain_weight) F(place.transfer_weight) F(place.gain_min_ns) F(hold) F(copy_percent) F(latency_ns)           \
        F(bytes_per_s) F(overhead_ns) F(budget_step_bytes)
#define EVENT_FIELDS(F)                                                                                                \
    F(server)                                                                                                          \
    F(lane)                                                                                                            \
    F(group) F(workers) F(items) F(host) F(to_host) F(pool) F(job) F(rank) F(part) F(weight) F(class_id) F(flags)      \
        F(failed) F(saturated) F(data_known) F(data_host) F(pools) F(sequence) F(wait_ns) F(window_ns) F(cpu_ns)       \
            F(io_ns) F(margin_ns) F(wall_ns) F(output_bytes) F(budget_bytes) F(inflight_bytes) F(load_ns)              \
                F(latency_ns) F(bytes_per_s) F(features.samples) F(features.pixels_in) F(features.bytes_in)            \
                    F(features.pixels_out) F(features.hint_ns)
#define ACTION_FIELDS(F)                                                                                               \
    F(type)                                                                                                            \
    F(server)                                                                                                          \
    F(lane) F(part) F(sequence) F(deadline_ns) F(reason) F(candidates) F(total_ns) F(late_ns) F(cpu_ns) F(io_ns)       \
        F(queue_ns) F(net_ns) F(local_ns)

/* ---- digest: FNV-1a over the fields as eight little-endian bytes each */

static uint64_t mix(uint64_t digest, uint64_t value)
{
    for (int i = 0; i < 8; i++) digest = (digest ^ (value >> 8 * i & 0xff)) * UINT64_C(0x100000001b3);
    return digest;
}

uint64_t stk_journal_digest(const struct stk_action *actions, size_t count)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
#define MIX(name) digest = mix(digest, (uint64_t)actions[i].name);
        ACTION_FIELDS(MIX)
#undef MIX
    }
    return digest;
}

/* ---- writing */

static size_t put(uint8_t *out, uint64_t value)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7) out[size++] = (uint8_t)(value | 0x80);
    out[size++] = (uint8_t)value;
    return size;
}

size_t stk_journal_write_head(uint8_t *out, const struct stk_engine_limits *limits,
                              const struct stk_engine_options *options)
{
    static const struct stk_engine_options none = {0};
    if (!options) options = &none;
    memcpy(out, MAGIC, MAGIC_BYTES);
    size_t size = MAGIC_BYTES;
    size += put(out + size, STK_JOURNAL_VERSION);
#define PUT(name) size += put(out + size, limits->name);
    LIMIT_FIELDS(PUT)
#undef PUT
#define PUT(name) size += put(out + size, (uint64_t)options->name);
    OPTION_FIELDS(PUT)
#undef PUT
    STK_ASSERT(size <= STK_JOURNAL_HEAD_BYTES_MAX);
    return size;
}

static size_t write_event(uint8_t *out, const struct stk_event *event)
{
    uint64_t present = 0, bit = 1;
#define NOTE(name)                                                                                                     \
    present |= event->name != 0 ? bit : 0;                                                                             \
    bit <<= 1;
    EVENT_FIELDS(NOTE)
#undef NOTE
    size_t size = put(out, (uint64_t)event->type);
    size += put(out + size, present);
#define PUT(name)                                                                                                      \
    if (event->name != 0) size += put(out + size, (uint64_t)event->name);
    EVENT_FIELDS(PUT)
#undef PUT
    STK_ASSERT(size <= STK_JOURNAL_EVENT_BYTES_MAX);
    return size;
}

size_t stk_journal_write_step(uint8_t *out, uint64_t last_ns, uint64_t now_ns, const struct stk_event *events,
                              size_t count, const struct stk_action *actions, size_t action_count)
{
    STK_ASSERT(now_ns >= last_ns);
    STK_ASSERT(count <= STK_JOURNAL_EVENTS_MAX);
    size_t size = put(out, TAG_STEP);
    size += put(out + size, now_ns - last_ns);
    size += put(out + size, count);
    for (size_t i = 0; i < count; i++) size += write_event(out + size, &events[i]);
    size += put(out + size, action_count);
    uint64_t digest = stk_journal_digest(actions, action_count);
    for (int i = 0; i < 8; i++) out[size++] = (uint8_t)(digest >> 8 * i);
    return size;
}

size_t stk_journal_write_end(uint8_t *out, bool limit_reached)
{
    out[0] = TAG_END;
    out[1] = limit_reached ? 1 : 0;
    return 2;
}

/* ---- reading */

/* False at the end of the bytes, and for a number of more than 64 bits. */
static bool get(struct stk_journal_reader *reader, uint64_t *out)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < VARINT_BYTES_MAX; i++) {
        if (reader->offset == reader->size) return false;
        uint8_t byte = reader->data[reader->offset++];
        if (i == VARINT_BYTES_MAX - 1 && byte > 1) return false;
        value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static stoker_status get_field(struct stk_journal_reader *reader, const char *name, uint64_t max, uint64_t *out,
                               stoker_error *err)
{
    size_t at = reader->offset;
    uint64_t value = 0;
    if (!get(reader, &value))
        return stk_fail(err, STOKER_ERR_CORRUPT, "field '%s' at offset %zu of the journal is cut off or too long", name,
                        at);
    if (value > max)
        return stk_fail(err, STOKER_ERR_CORRUPT, "field '%s' at offset %zu of the journal is %llu, at most %llu can be",
                        name, at, (unsigned long long)value, (unsigned long long)max);
    *out = value;
    return STOKER_OK;
}

#define FIELD_MAX(variable)                                                                                            \
    (sizeof(variable) == 1 ? UINT64_C(1) : sizeof(variable) == 4 ? (uint64_t)UINT32_MAX : UINT64_MAX)

static stoker_status check_limits(const struct stk_engine_limits *limits, stoker_error *err)
{
    const struct {
        const char *name;
        uint32_t value, least, most;
    } checks[] = {{"servers", limits->servers, 1, 1u << 20},
                  {"lanes", limits->lanes, 1, 1u << 20},
                  {"tasks", limits->tasks, 1, 1u << 24},
                  {"hosts", limits->hosts, 0, 1u << 20},
                  {"jobs", limits->jobs, 0, 1u << 20},
                  {"links", limits->links, 0, 1u << 22},
                  {"models", limits->models, 0, STK_COST_MODELS_MAX}};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].value < checks[i].least || checks[i].value > checks[i].most)
            return stk_fail(err, STOKER_ERR_CORRUPT, "the journal is of an engine for %u %s; %u to %u are possible",
                            checks[i].value, checks[i].name, checks[i].least, checks[i].most);
    size_t bytes = stk_engine_bytes(limits);
    if (bytes > STK_JOURNAL_BLOCK_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "the journal is of an engine of %zu bytes, at most %llu are taken",
                        bytes, (unsigned long long)STK_JOURNAL_BLOCK_BYTES_MAX);
    return STOKER_OK;
}

static stoker_status read_head(struct stk_journal_reader *reader, struct stk_engine_limits *limits,
                               struct stk_engine_options *options, stoker_error *err)
{
    uint64_t value = 0;
#define GET(name)                                                                                                      \
    STK_TRY(get_field(reader, #name, UINT32_MAX, &value, err));                                                        \
    limits->name = (uint32_t)value;
    LIMIT_FIELDS(GET)
#undef GET
#define GET(name)                                                                                                      \
    STK_TRY(get_field(reader, #name, FIELD_MAX(options->name), &value, err));                                          \
    options->name = (__typeof__(options->name))value;
    OPTION_FIELDS(GET)
#undef GET
    if ((uint32_t)options->place.policy > STK_POLICY_ROUND_ROBIN)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the journal names policy %u, the last one known is %u",
                        (uint32_t)options->place.policy, STK_POLICY_ROUND_ROBIN);
    return check_limits(limits, err);
}

stoker_status stk_journal_open(struct stk_journal_reader *reader, const uint8_t *data, size_t size,
                               struct stk_engine_limits *out_limits, struct stk_engine_options *out_options,
                               stoker_error *err)
{
    struct stk_journal_reader fresh = {.data = data, .size = size};
    struct stk_engine_limits limits = {0};
    struct stk_engine_options options = {0};
    uint64_t version = 0;
    if (size < MAGIC_BYTES || memcmp(data, MAGIC, MAGIC_BYTES) != 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "this is no journal: it does not begin with '%s'", MAGIC);
    fresh.offset = MAGIC_BYTES;
    STK_TRY(get_field(&fresh, "version", UINT64_MAX, &version, err));
    if (version != STK_JOURNAL_VERSION)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the journal has version %llu, this program reads version %u",
                        (unsigned long long)version, STK_JOURNAL_VERSION);
    STK_TRY(read_head(&fresh, &limits, &options, err));
    fresh.whole_bytes = fresh.offset;
    *reader = fresh;
    *out_limits = limits;
    *out_options = options;
    return STOKER_OK;
}

static stoker_status read_event(struct stk_journal_reader *reader, struct stk_event *event, stoker_error *err)
{
    uint64_t value = 0, present = 0, bit = 1;
    *event = (struct stk_event){0};
    STK_TRY(get_field(reader, "type", STK_EVENT_TICK, &value, err));
    event->type = (enum stk_event_type)value;
    STK_TRY(get_field(reader, "present", UINT64_MAX, &present, err));
#define GET(name)                                                                                                      \
    if ((present & bit) != 0) {                                                                                        \
        STK_TRY(get_field(reader, #name, FIELD_MAX(event->name), &value, err));                                        \
        event->name = (__typeof__(event->name))value;                                                                  \
    }                                                                                                                  \
    bit <<= 1;
    EVENT_FIELDS(GET)
#undef GET
    if (present >= bit)
        return stk_fail(err, STOKER_ERR_CORRUPT, "an event before offset %zu of the journal has unknown fields",
                        reader->offset);
    return STOKER_OK;
}

static stoker_status read_step(struct stk_journal_reader *reader, struct stk_event *events, size_t cap,
                               struct stk_journal_step *step, stoker_error *err)
{
    uint64_t value = 0;
    STK_TRY(get_field(reader, "time", NOW_NS_MAX - reader->now_ns, &value, err));
    step->now_ns = reader->now_ns + value;
    STK_TRY(get_field(reader, "events", STK_JOURNAL_EVENTS_MAX, &value, err));
    if (value > cap)
        return stk_fail(err, STOKER_ERR_LIMIT,
                        "a step before offset %zu of the journal has %llu events, at most %zu fit", reader->offset,
                        (unsigned long long)value, cap);
    step->event_count = (size_t)value;
    for (size_t i = 0; i < step->event_count; i++) STK_TRY(read_event(reader, &events[i], err));
    STK_TRY(get_field(reader, "actions", SIZE_MAX, &value, err));
    step->action_count = (size_t)value;
    if (reader->size - reader->offset < 8) {
        size_t at = reader->offset;
        reader->offset = reader->size; /* the writer died here */
        return stk_fail(err, STOKER_ERR_CORRUPT, "the digest at offset %zu of the journal is cut off", at);
    }
    step->digest = 0;
    for (int i = 0; i < 8; i++) step->digest |= (uint64_t)reader->data[reader->offset++] << 8 * i;
    reader->now_ns = step->now_ns;
    return STOKER_OK;
}

stoker_status stk_journal_next(struct stk_journal_reader *reader, struct stk_event *events, size_t cap,
                               struct stk_journal_step *out_step, stoker_error *err)
{
    uint64_t tag = 0;
    struct stk_journal_step step;
    stoker_error cause = {0};
    if (reader->ended || reader->offset == reader->size) return STOKER_END;
    STK_TRY(get_field(reader, "tag", UINT64_MAX, &tag, err));
    if (tag == TAG_END) {
        reader->ended = reader->offset == reader->size; /* the writer died in it */
        if (reader->ended) return STOKER_END;
        STK_TRY(get_field(reader, "end", 1, &tag, err));
        reader->ended = reader->closed = true;
        reader->whole_bytes = reader->offset;
        reader->limit_reached = tag == 1;
        return STOKER_END;
    }
    if (tag != TAG_STEP)
        return stk_fail(err, STOKER_ERR_CORRUPT, "a record before offset %zu of the journal has the unknown tag %llu",
                        reader->offset, (unsigned long long)tag);
    stoker_status status = read_step(reader, events, cap, &step, &cause);
    if (status == STOKER_ERR_CORRUPT && reader->offset == reader->size) {
        reader->ended = true; /* the writer died in it */
        return STOKER_END;
    }
    if (status != STOKER_OK) {
        if (err) *err = cause;
        return status;
    }
    reader->whole_bytes = reader->offset;
    *out_step = step;
    return STOKER_OK;
}
