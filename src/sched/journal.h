/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of an engine's events, from which the same actions follow again: a fault in the field becomes a test
 * (`stoker-sim replay FILE`). Format: docs/reference/journal.md.
 *
 *     head   magic, version, limits and options of the engine
 *     step   time, events, and the number and digest of the actions that followed
 *     end    why the record ends: closed, or its limit of bytes was reached
 *
 * A journal starts with the engine; what is cut off at the end (a crash) is END, not an error, up to the last whole
 * step. Numbers are variable-length integers, absent fields are not written: a request takes about 30 bytes.
 *
 * Pure: bytes in the caller's memory. The reader trusts nothing: every number is checked before it is used, and limits
 * are those that an engine can be made with.
 */
#ifndef STK_SCHED_JOURNAL_H
#define STK_SCHED_JOURNAL_H

#include "sched/engine.h"

#define STK_JOURNAL_VERSION 1u
#define STK_JOURNAL_HEAD_BYTES_MAX 512u
#define STK_JOURNAL_EVENT_BYTES_MAX 512u
#define STK_JOURNAL_STEP_BYTES_MAX(events) (64u + (size_t)(events)*STK_JOURNAL_EVENT_BYTES_MAX)
#define STK_JOURNAL_EVENTS_MAX 65536u                   /* of one step */
#define STK_JOURNAL_BLOCK_BYTES_MAX (UINT64_C(4) << 30) /* of an engine that a reader is told to make */

/* Digest of actions, over all their fields in a fixed order: equal for equal actions on every machine. */
uint64_t stk_journal_digest(const struct stk_action *actions, size_t count);

/* ---- writing: each returns the number of bytes, at most as the constants say. */

size_t stk_journal_write_head(uint8_t *out, const struct stk_engine_limits *limits,
                              const struct stk_engine_options *options);
/* The events that one stk_engine_step() applied, and the one that it refused, if it did. `last_ns` is the time of the
 * step before, 0 for the first. */
size_t stk_journal_write_step(uint8_t *out, uint64_t last_ns, uint64_t now_ns, const struct stk_event *events,
                              size_t count, const struct stk_action *actions, size_t action_count);
size_t stk_journal_write_end(uint8_t *out, bool limit_reached);

/* ---- reading */

struct stk_journal_reader {
    const uint8_t *data;
    size_t size, offset;
    size_t whole_bytes; /* up to the end of the last whole record; after END below size: the next one is cut off */
    uint64_t now_ns;
    bool closed;        /* the end mark was read; not so after END: the writer died, or the file was cut */
    bool limit_reached; /* and it says that later steps are missing */
    bool ended;
};

struct stk_journal_step {
    uint64_t now_ns;
    size_t event_count, action_count;
    uint64_t digest;
};

/* Reads the head. CORRUPT (naming field and offset), UNSUPPORTED (another version), LIMIT (an engine of that size is
 * not made). `data` is borrowed as long as the reader is used. */
stoker_status stk_journal_open(struct stk_journal_reader *reader, const uint8_t *data, size_t size,
                               struct stk_engine_limits *out_limits, struct stk_engine_options *out_options,
                               stoker_error *err);
/* The next step; its events go to `events`, which has room for `cap`. END after the last whole step; CORRUPT; LIMIT for
 * more events than cap. */
stoker_status stk_journal_next(struct stk_journal_reader *reader, struct stk_event *events, size_t cap,
                               struct stk_journal_step *out_step, stoker_error *err);

#endif
