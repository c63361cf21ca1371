/* SPDX-License-Identifier: Apache-2.0
 *
 * Every message between processes: rank <-> DataServer <-> workers. Pure: encode into a caller's buffer, decode from
 * bytes that came from outside, all bounds checked. docs/reference/messages.md is the description for a second
 * implementation.
 *
 * A frame is a 32-byte header and a body. Integers are little-endian. Descriptors (SCM_RIGHTS) travel with the first
 * byte of the frame; the header says how many. Messages carry durations, never timestamps (rule D1), and the sender's
 * incarnation (rule C3).
 *
 * Decoded structs borrow their text and bytes from the buffer that was decoded.
 */
#ifndef STK_WIRE_MESSAGE_H
#define STK_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>
#include <stoker/service.h>

#include "base/limits.h"

#define STK_WIRE_MAGIC 0x314b5453u /* "STK1" */
#define STK_WIRE_VERSION 5u
#define STK_FRAME_HEADER_BYTES 32u
#define STK_PART_BYTES 16u     /* in the place of draws: which part of a batch a payload is, and of how many, as u64 */
#define STK_COST_ROW_BYTES 80u /* the ten numbers of a stoker_cost_row, as u64 */

enum stk_message_type {
    /* rank -> DataServer */
    STK_MESSAGE_HELLO = 1,
    STK_MESSAGE_LOADER_OPEN = 2, /* descriptors: source blob; for process sources also the payload */
    STK_MESSAGE_LOADER_BEGIN = 3,
    STK_MESSAGE_REQUEST = 4,
    STK_MESSAGE_RELEASE = 5,
    STK_MESSAGE_STEP = 6,
    STK_MESSAGE_LOADER_CLOSE = 7,
    STK_MESSAGE_STATUS_QUERY = 8,
    STK_MESSAGE_BYE = 9,
    STK_MESSAGE_GATHER = 10, /* wire/exchange.h */
    STK_MESSAGE_GIVE = 11,
    /* DataServer -> rank */
    STK_MESSAGE_WELCOME = 20,
    STK_MESSAGE_REFUSED = 21,
    STK_MESSAGE_LOADER_OPENED = 22,
    STK_MESSAGE_LOADER_FAILED = 23,
    STK_MESSAGE_READY = 24, /* descriptor: the segment, if this process was never given it */
    STK_MESSAGE_FAILED = 25,
    STK_MESSAGE_UNMAP = 26, /* also to workers */
    STK_MESSAGE_NOTICE = 27,
    STK_MESSAGE_STATUS = 28,
    STK_MESSAGE_GATHERED = 29, /* wire/exchange.h */
    STK_MESSAGE_GIVEN = 30,    /* descriptor: as READY */
    /* DataServer -> worker */
    STK_MESSAGE_SOURCE = 40, /* descriptor: source blob */
    STK_MESSAGE_SOURCE_DROP = 41,
    STK_MESSAGE_TASK = 42, /* descriptors: segments that this process was never given, target first */
    STK_MESSAGE_GRANT = 43,
    /* worker -> DataServer */
    STK_MESSAGE_NEED = 60,
    STK_MESSAGE_DONE = 61,
    /* template <-> DataServer */
    STK_MESSAGE_TEMPLATE_REPORT = 80,
    STK_MESSAGE_FORK = 81, /* descriptor: the worker's socket */
    STK_MESSAGE_FORKED = 82
};

struct stk_frame {
    uint16_t type;
    uint16_t fd_count;
    uint32_t body_size;
    uint64_t incarnation;
};

struct stk_span { /* bytes that belong to someone else */
    const void *data;
    size_t size;
};

struct stk_message_hello {
    struct stk_span key;     /* 64 hexadecimal digits */
    struct stk_span version; /* STOKER_VERSION */
    uint32_t rank, world_size, local_rank, local_world_size;
    int64_t pid;
    struct stk_span cpu_mask; /* affinity of the rank, bit i of byte i/8 = CPU i (rule B5) */
};

enum stk_source_kind {
    STK_SOURCE_MEDIA = 1,   /* blob: source/media.h */
    STK_SOURCE_PROCESS = 2, /* blob: source/process.h */
    STK_SOURCE_TOKENS = 3   /* blob: source/tokens.c */
};

struct stk_message_loader_open {
    uint32_t loader_id; /* chosen by the rank, unique in its connection */
    uint32_t kind;      /* enum stk_source_kind */
    uint32_t order;     /* 0, 1, 2... of creation in the rank */
    uint32_t num_workers;
    uint32_t batch_samples_max;
    uint32_t on_error; /* stoker_on_error */
    uint32_t retries;
    uint64_t max_bytes;
    uint64_t sample_bytes; /* of native sources, else 0 */
    uint64_t stall_limit_ns;
    struct stk_span name;       /* empty: match by (order, digest) */
    struct stk_span digest;     /* 32 bytes: SHA-256 of the source */
    uint32_t isolation;         /* stoker_isolation, of native sources */
    uint64_t worker_bytes;      /* private memory of a native worker; 0: no limit */
    uint64_t sample_cpu_ns;     /* CPU time of one native sample; 0: no limit */
    struct stk_span quarantine; /* absolute path of a list of bad files; empty: none */
    struct stk_span profile;    /* rows of STK_COST_ROW_BYTES that the cost model starts from; empty: none */
};

struct stk_message_loader_ref { /* LOADER_BEGIN, LOADER_CLOSE */
    uint32_t loader_id;
    uint32_t generation; /* of the iteration that begins; 0 for CLOSE */
};

struct stk_message_request {
    uint32_t loader_id, generation;
    uint64_t sequence;
    struct stk_span ids;     /* id_count little-endian u64; native sources */
    struct stk_span payload; /* process sources */
    struct stk_span draws;   /* as many u64 as ids: where the randomness of each comes from; empty: 0 for all. With a
                                payload: its part, and of how many; empty: it is the whole batch */
    uint32_t samples;        /* of a payload, 0: unknown; with ids 0 */
    uint64_t estimate_ns;    /* what the dataset says that making them costs; 0: nothing */
};

struct stk_message_release {
    struct stk_span slabs; /* little-endian u64 slab ids */
};

struct stk_message_step { /* a batch was taken: one call of next(), or as many as it has parts */
    uint32_t loader_id, generation;
    uint64_t sequence;  /* 0, 1, 2...: parts of one batch count as one */
    uint64_t wait_ns;   /* time inside next() */
    uint64_t window_ns; /* time from the return of the call before to this call; 0 for the first */
};

struct stk_message_welcome {
    int64_t pid;
    struct stk_span version;
};

struct stk_message_verdict { /* REFUSED (loader_id 0), LOADER_OPENED (status OK; text: the quarantine list's digest and
                               its number of entries, if one was named), LOADER_FAILED */
    uint32_t loader_id;
    int32_t status;
    struct stk_span text;
    struct stk_span detail;
};

struct stk_message_region { /* part of a segment */
    uint64_t slab_id;       /* 0: none */
    uint64_t segment_id;
    uint64_t segment_bytes;
    uint64_t offset;
    uint64_t size;
    uint32_t fd_sent; /* 1: the segment's descriptor is attached to this frame */
};

struct stk_message_leaf {
    uint32_t dtype; /* stoker_dtype */
    uint32_t ndim;
    uint64_t shape[STK_DIMS_MAX];
    uint64_t offset; /* from the start of the region */
    uint64_t size;
};

enum stk_ready_flag { STK_READY_COPY = 1 /* hand out as a private copy and return the slab (rule A5) */ };

struct stk_message_ready {
    uint32_t loader_id, generation;
    uint64_t sequence;
    uint32_t flags;
    uint32_t samples_skipped;
    uint32_t tasks_retried;
    uint64_t ready_ns; /* request to ready */
    struct stk_message_region region;
    uint64_t skeleton_offset, skeleton_size; /* from the start of the region; size 0: none */
    uint32_t leaf_count;
    struct stk_message_leaf
        leaves[STK_NATIVE_LEAVES_MAX]; /* native batches have few; process batches keep theirs in the skeleton */
};

struct stk_message_failed {
    uint32_t loader_id, generation;
    uint64_t sequence;
    int32_t status;
    uint32_t tasks_retried;
    struct stk_span text; /* "sample 17: clips/a.mp4: moov atom not found" */
    struct stk_span detail;
};

struct stk_message_unmap {
    uint64_t segment_id;
};

struct stk_message_notice {
    uint32_t level; /* stoker_log_level */
    struct stk_span id, text;
};

struct stk_message_status { /* STATUS_QUERY has an empty text */
    uint64_t token;
    struct stk_span text;
};

struct stk_message_source { /* SOURCE, SOURCE_DROP */
    uint64_t source_id;
    uint32_t kind;
};

enum stk_task_kind {
    STK_TASK_MAKE = 1, /* materialise sample_id of source_id at `index` of the batch in the target */
    STK_TASK_COPY = 2, /* copy the sample at `from_index` of the batch in `from` to that place, equal sizes */
    STK_TASK_BATCH = 3 /* process source: make the batch of `payload` */
};

struct stk_message_task {
    uint64_t item_id;
    uint32_t kind;
    uint32_t attempt;
    uint64_t source_id;
    uint64_t sample_id;
    struct stk_message_region target; /* of the whole batch; slab_id 0 with BATCH: size not known yet */
    struct stk_message_region from;   /* COPY only */
    uint32_t samples;                 /* of the batch, which says where the leaves of each lie; 0 with BATCH */
    uint32_t index, from_index;       /* below samples; 0 where it means nothing */
    struct stk_span payload;          /* BATCH only */
    uint64_t draw;                    /* MAKE only: where the randomness of the sample comes from */
    uint64_t rows, row; /* MAKE of a ragged source: rows of the whole batch, and where the sample's begin; else 0 */
};

struct stk_message_need {
    uint64_t item_id;
    uint64_t size;
};

struct stk_message_grant {
    uint64_t item_id;
    int32_t status;
    struct stk_message_region region;
    struct stk_span text;
};

struct stk_message_done {
    uint64_t item_id;
    int32_t status;
    uint64_t cpu_ns, wall_ns;
    uint64_t bytes_read;
    uint64_t used, skeleton_offset, skeleton_size;
    uint32_t samples_skipped;
    uint64_t frames_presented; /* of native video; 0 elsewhere */
    struct stk_span text;
    struct stk_span detail;
};

struct stk_message_template_report { /* TEMPLATE_REPORT (also of native workers: are they isolated?), FORK, FORKED */
    uint32_t worker_id;
    int32_t status;
    int64_t pid;
    struct stk_span text;
    struct stk_span detail;
};

/* A growing position in a caller's buffer; `full` is set, and nothing more written, when something does not fit. */
struct stk_writer {
    uint8_t *data;
    size_t size, used;
    bool full;
};

/* Writes the 32-byte header for a body of body_size bytes. */
void stk_frame_encode(const struct stk_frame *frame, uint8_t out[STK_FRAME_HEADER_BYTES]);
/* PROTOCOL for another magic, version, a body over STK_MESSAGE_BYTES_MAX or more than STK_MESSAGE_FDS_MAX
 * descriptors. */
stoker_status stk_frame_decode(const uint8_t in[STK_FRAME_HEADER_BYTES], struct stk_frame *out, stoker_error *err);

/* One pair for each message struct:
 *     void          stk_<name>_encode(struct stk_writer *, const struct stk_message_<name> *);
 *     stoker_status stk_<name>_decode(struct stk_span body, struct stk_message_<name> *out, stoker_error *err);
 * Encoding a valid struct into a buffer of stk_<name>_size() bytes never sets `full`. Decoding checks every length,
 * count, enum and bound (PROTOCOL names the message, the field and the value), and refuses trailing bytes. Encode and
 * decode assert the same properties. */
#define STK_MESSAGE_PAIR(name)                                                                                         \
    void stk_##name##_encode(struct stk_writer *writer, const struct stk_message_##name *message);                     \
    size_t stk_##name##_size(const struct stk_message_##name *message);                                                \
    stoker_status stk_##name##_decode(struct stk_span body, struct stk_message_##name *out, stoker_error *err)

STK_MESSAGE_PAIR(hello);
STK_MESSAGE_PAIR(loader_open);
STK_MESSAGE_PAIR(loader_ref);
STK_MESSAGE_PAIR(request);
STK_MESSAGE_PAIR(release);
STK_MESSAGE_PAIR(step);
STK_MESSAGE_PAIR(welcome);
STK_MESSAGE_PAIR(verdict);
STK_MESSAGE_PAIR(ready);
STK_MESSAGE_PAIR(failed);
STK_MESSAGE_PAIR(unmap);
STK_MESSAGE_PAIR(notice);
STK_MESSAGE_PAIR(status);
STK_MESSAGE_PAIR(source);
STK_MESSAGE_PAIR(task);
STK_MESSAGE_PAIR(need);
STK_MESSAGE_PAIR(grant);
STK_MESSAGE_PAIR(done);
STK_MESSAGE_PAIR(template_report);

/* Loads and stores for little-endian integers inside spans of ids. */
uint64_t stk_load_u64(const void *from);
void stk_store_u64(void *to, uint64_t value);

#endif
