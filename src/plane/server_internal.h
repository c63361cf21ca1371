/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the DataServer share. One thread, one loop, one owner of everything here.
 *
 *     dataserver.c  the loop, its life and its end (rule B7)
 *     connection.c  ranks: handshake, messages, death (rule A9)
 *     lane.c        loaders of ranks: open, begin, close
 *     flow.c        requests: placement, memory, hand-out to workers, delivery
 *     answer.c      what workers say, and what is done when they end
 *     blame.c       bad samples: whose fault, what is said and remembered
 *     exchange.c    rounds between ranks: what they tell each other, slabs that change their owner
 *     status.c      the state as JSON
 *
 * Messages only change tables and queue events; the loop then lets the engine decide once (stk_coordinator_step) and
 * moves what can move (stk_flow_run). Links that break while something is sent are dropped by the sweep after it.
 */
#ifndef STK_PLANE_SERVER_INTERNAL_H
#define STK_PLANE_SERVER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <stoker/service.h>

#include "base/limits.h"
#include "obs/log.h"
#include "plane/coordinator.h"
#include "plane/loop.h"
#include "plane/map.h"
#include "plane/pool.h"
#include "plane/quarantine.h"
#include "plane/ragged.h"
#include "plane/slab.h"
#include "plane/turn.h"
#include "sched/dispatch.h"
#include "source/source.h"

#define STK_NONE UINT32_MAX
#define STK_CONNECTIONS_MAX (2u * STK_RANKS_MAX)   /* ranks, and those that left but keep views */
#define STK_GREETING_NS (10 * STK_SECOND_NS)       /* a connection without HELLO is dropped */
#define STK_CLOSING_NS (5 * STK_SECOND_NS)         /* nobody is left: loaders that do not close by then are killed */
#define STK_QUEUED_BYTES_MAX (UINT64_C(256) << 20) /* ids and payloads that wait in one lane */

struct stk_server;

enum stk_connection_state {
    STK_CONNECTION_FREE,
    STK_CONNECTION_GREETING,
    STK_CONNECTION_OPEN,
    STK_CONNECTION_LINGERING /* left; its process lives and keeps views */
};

struct stk_connection {
    enum stk_connection_state state;
    uint32_t index, process;
    struct stk_server *server;
    pid_t pid; /* 0: not visible from here */
    int pidfd; /* -1: none */
    struct stk_watch life;
    struct stk_link link;
    uint32_t rank, world_size, local_rank, local_world_size;
    uint64_t since_ns;
    uint32_t delivered; /* slabs that it keeps */
    bool had_loader;
    uint32_t orders; /* the next order of a lane that it opens */
    uint8_t cpu_mask[STK_CPU_MASK_BYTES_MAX];
    size_t cpu_mask_size;
};

struct stk_shared_source {
    uint64_t source_id; /* 0: free entry */
    uint32_t users;
    stoker_source *source;
};

enum stk_lane_state { STK_LANE_FREE, STK_LANE_OPENING, STK_LANE_OPEN, STK_LANE_CLOSING };

/* One (loader, rank). */
struct stk_lane {
    enum stk_lane_state state;
    uint32_t index, connection, loader_id, group, order;
    struct stk_server *server;
    uint8_t digest[32];
    size_t name_size;
    char name[STK_TEXT_BYTES_MAX];
    uint32_t kind, num_workers, batch_samples_max, on_error, retries;
    uint64_t max_bytes, stall_limit_ns, sample_bytes;
    struct stk_native_rights rights; /* that it wishes for its native workers */
    uint64_t sample_cpu_ns;          /* 0: no limit */
    uint32_t policy;                 /* of dispatch: on_error, or SKIP to get past what is listed */
    struct stk_named_list *list;     /* of bad files; NULL: none */
    uint32_t source;                 /* entry of the sources table */
    uint64_t count;                  /* samples of a native source */
    uint32_t cost_class;             /* of its samples */
    uint32_t generation;
    uint64_t next_sequence;
    struct stk_turn turn; /* of the next request */
    uint64_t largest;     /* of a process source: bytes of its largest batch so far, 0: unknown */
    bool sizing;          /* its first batch is being made, alone (rule B6) */
    bool crew_closed;     /* no worker of its own is left */
    bool broken, doomed;  /* its workers gave up; to be closed by the sweep */
    stoker_status broken_status;
    char broken_text[1024];
    uint64_t queued_bytes;
    uint32_t live;         /* requests in the table */
    uint32_t held;         /* of these, finished ones that wait for the rank to take earlier ones (stk_flow_run) */
    uint32_t untaken;      /* batches of which the last part was sent and not taken by next() yet */
    uint64_t highest_sent; /* turn; of those */
    /* Requests of this generation by sequence. */
    uint32_t *ring;
    uint32_t ring_cap, ring_count; /* cap is 0 or a power of two */
    uint64_t ring_base;            /* sequence of the first */
    struct {
        uint64_t batches, failed, samples, skipped, retried, copies;
    } counts;
};

/* One batch that a rank asked for, from REQUEST to READY or FAILED. */
struct stk_request {
    uint32_t index, lane, generation;
    uint32_t batch; /* handle of dispatch; STK_NONE: not placed yet, or free */
    uint64_t sequence;
    uint64_t turn; /* of its batch: the engine knows it as part (sequence - turn) of that, which names it alone */
    bool is_last;  /* it is the batch, or its last part */
    uint64_t since_ns;
    uint8_t *bytes; /* ids, then draws if there are some; or payload. The buffer is kept for the next request of this
                       entry */
    size_t size, cap;
    uint32_t sample_count;          /* of native sources */
    struct stk_batch_layout layout; /* of native sources */
    struct stk_ragged *ragged;      /* places of a batch whose samples differ in size; else NULL */
    bool sizing;                    /* made without a slab of known size, alone in its lane */
    bool placed;                    /* the engine knows it */
    bool held;                      /* finished; not sent yet, because it could only be sent as a copy */
    struct stk_slab slab;           /* slab_id 0: none */
    uint64_t used, skeleton_offset, skeleton_size;
    uint32_t samples_skipped;
    uint32_t payload_samples; /* of a process source; 0: unknown */
    uint64_t estimate_ns;     /* what its dataset says that it costs; 0: nothing */
    uint64_t cpu_ns, wall_ns; /* of its items so far */
    uint8_t *crashed;         /* bit per item that crashed a worker; NULL: none did */
    stoker_status failure;    /* OK: none known */
    bool failure_fixed;       /* it made the batch fail: later ones do not replace it */
    char *failure_text;       /* [STK_TEXT_BYTES_MAX], allocated at the first failure of this entry */
    size_t failure_size;
    uint8_t *detail;
    size_t detail_size;
    uint32_t next_free;
};

struct stk_delivered {
    uint64_t slab_id;
    struct stk_slab slab;
    uint32_t connection, lane; /* lane: STK_NONE once it is closed */
    bool freed;                /* given back to the arena: only the rank's own return is awaited */
    uint32_t next_free;
};

struct stk_server {
    /* Fixed after start. */
    const stoker_dataserver_options *options;
    int listen_fd;
    int journal_fd; /* -1: none */
    uint64_t incarnation, started_ns;
    struct stk_log log;
    struct stk_loop loop;
    struct stk_watch listen_watch, stop_watch;
    struct stk_pool *pool;
    struct stk_arena *arena;
    struct stk_dispatch *dispatch;
    void *dispatch_block;
    struct stk_coordinator *coordinator;
    struct stk_quarantine *quarantine;
    struct stk_estimate *estimate;
    struct stk_exchange *exchange; /* NULL until ranks exchange */
    /* Owned by the loop. */
    char not_isolated[256]; /* why the last native worker is not isolated; empty: it is, or none has said */
    uint64_t now_ns, next_beat_ns;
    bool stopping;
    bool busy;              /* something changed after the last pass: do not wait */
    bool grants;            /* a batch may have got its turn for memory */
    bool quiet;             /* inside a log record for the ranks */
    uint32_t process_count; /* last process number given out */
    uint32_t workers_told;  /* to the engine */
    uint64_t source_count, group_count;
    struct stk_connection *connections; /* [STK_CONNECTIONS_MAX] */
    uint32_t connection_high;           /* entries from here on were never used */
    struct stk_shared_source *sources;  /* [STK_LANES_MAX] */
    struct stk_lane *lanes;             /* [STK_LANES_MAX] */
    uint32_t lane_high;
    struct stk_request *requests; /* [STK_BATCHES_MAX] */
    uint32_t request_high, request_free;
    uint32_t *request_of_batch;   /* [STK_BATCHES_MAX] */
    uint32_t *scratch;            /* [STK_BATCHES_MAX] handles */
    struct stk_map delivered_map; /* slab id -> entry */
    struct stk_delivered *delivered;
    uint32_t delivered_high, delivered_cap, delivered_free;
    uint32_t ranks_open;
    uint64_t alone_since_ns;   /* nobody is connected since */
    uint32_t local_world_size; /* the largest that a rank said */
    uint8_t local_seen[STK_RANKS_MAX / 8];
    uint32_t local_seen_count;
};

/* dataserver.c: what stoker_dataserver_run() is made of. Destroy kills and reaps what was started. */
stoker_status stk_server_create(const stoker_dataserver_options *options, struct stk_server **out_server,
                                stoker_error *err);
void stk_server_destroy(struct stk_server *server);
bool stk_server_is_over(struct stk_server *server);
stoker_status stk_server_step(struct stk_server *server, stoker_error *err);

/* connection.c */
void stk_connection_notice(struct stk_connection *connection, stoker_log_level level, const char *id,
                           struct stk_span text);
void stk_server_accept(struct stk_server *server);
void stk_connection_drop(struct stk_connection *connection, const char *why, bool expected);
void stk_connections_check(struct stk_server *server); /* broken links, greetings that never came */
struct stk_connection *stk_connection_find_process(struct stk_server *server, uint32_t process);
void stk_connection_send_verdict(struct stk_connection *connection, uint16_t type,
                                 const struct stk_message_verdict *verdict);

/* lane.c */
stoker_status stk_lane_open(struct stk_connection *connection, struct stk_incoming *in, stoker_error *err);
stoker_status stk_lane_begin(struct stk_connection *connection, const struct stk_message_loader_ref *ref,
                             stoker_error *err);
stoker_status stk_lane_request(struct stk_connection *connection, const struct stk_message_request *message,
                               stoker_error *err);
struct stk_lane *stk_lane_find(struct stk_connection *connection, uint32_t loader_id);
void stk_lane_close(struct stk_lane *lane, bool at_once);
void stk_lane_opened(struct stk_lane *lane);
/* Its workers gave up, or (OPENING) never came. */
void stk_lane_break(struct stk_lane *lane, const struct stk_message_verdict *verdict);
/* Frees a closing lane once nothing of it is left. */
void stk_lane_settle(struct stk_lane *lane);
void stk_lanes_check(struct stk_server *server);

/* flow.c */
struct stk_request *stk_request_create(struct stk_lane *lane, const struct stk_message_request *message,
                                       stoker_error *err);
struct stk_request *stk_request_of_batch(struct stk_server *server, uint32_t batch);
struct stk_request *stk_request_of_sequence(struct stk_server *server, uint32_t lane, uint64_t sequence);
/* An event about it, for the engine. */
struct stk_event stk_request_event(const struct stk_request *request, enum stk_event_type type);
/* The batch has ended in dispatch, or was never placed: frees its slab (unless it was delivered) and the entry. */
void stk_request_free(struct stk_server *server, struct stk_request *request);
void stk_request_fail(struct stk_request *request, stoker_status status, struct stk_span text, struct stk_span detail);
/* Acts on what dispatch says of a batch. */
void stk_request_settle(struct stk_server *server, uint32_t batch, enum stk_batch_verdict verdict);
void stk_flow_place(struct stk_server *server, const struct stk_action *action);
void stk_flow_report_failure(struct stk_server *server, struct stk_request *request);
void stk_flow_refuse(struct stk_server *server, const struct stk_event *event, const stoker_error *err);
void stk_flow_run(struct stk_server *server);
/* Fills a region of a message for this process and says whether a descriptor goes with it. */
int stk_flow_region(struct stk_server *server, const struct stk_slab *slab, uint32_t process,
                    struct stk_message_region *out);
bool stk_flow_release(struct stk_connection *connection, uint64_t slab_id);
/* The slab is another rank's from now on; fills its region, and the descriptor that goes with it (-1: none). False: it
 * is not this rank's. */
bool stk_flow_pass(struct stk_connection *from, struct stk_connection *to, uint64_t slab_id,
                   struct stk_message_region *out, int *out_fd);
void stk_flow_forget_rank(struct stk_connection *connection); /* frees what was delivered to it */
void stk_flow_forget_lane(struct stk_lane *lane);
void stk_flow_taken(struct stk_lane *lane);     /* the rank took a batch */
void stk_flow_drop_held(struct stk_lane *lane); /* the iteration is over */

/* exchange.c */
stoker_status stk_exchange_gather(struct stk_connection *connection, struct stk_span body, stoker_error *err);
stoker_status stk_exchange_give(struct stk_connection *connection, struct stk_span body, stoker_error *err);
/* The ranks that the lane's gathering waits for, at most STOKER_BALANCE_RANKS_MAX; 0: it waits for none. */
uint32_t stk_exchange_awaited(const struct stk_lane *lane, uint64_t *out_number, uint32_t *out_ranks);
void stk_exchange_lane_opened(const struct stk_lane *lane);
/* Its rank has closed it, or is about to be dropped with it. */
void stk_exchange_lane_left(struct stk_lane *lane);
/* The connection is not open any more. */
void stk_exchange_rank_left(struct stk_connection *connection);
void stk_exchange_destroy(struct stk_server *server);

/* forecast.c */
/* Its kind of samples is found; rows of a profile teach, unless results have. */
void stk_forecast_lane(struct stk_lane *lane, struct stk_span profile);
/* Fills in what the request is predicted to cost. */
void stk_forecast_request(struct stk_server *server, const struct stk_lane *lane, const struct stk_request *request,
                          struct stk_event *event);
/* The request has its batch of `items` in dispatch: the order of its items, and its work. */
void stk_forecast_placed(struct stk_server *server, const struct stk_lane *lane, const struct stk_request *request,
                         uint32_t items);
/* Before the worker rests. */
void stk_forecast_done(struct stk_server *server, const struct stk_lane *lane, struct stk_request *request,
                       const struct stk_worker *worker, const struct stk_message_done *done);

/* blame.c */
/* Puts the sample's id and file before what its worker said: the worker knows neither batch nor policy. */
struct stk_span stk_blame_text(struct stk_server *server, const struct stk_lane *lane, uint64_t sample_id,
                               struct stk_span cause, char out[STK_TEXT_BYTES_MAX]);
/* What a worker's answer means for its item. */
enum stk_item_outcome stk_blame_outcome(const struct stk_lane *lane, const struct stk_worker *worker,
                                        stoker_status status);
/* What the end of a worker means for the item that it held: LOST, or its data's fault. */
enum stk_item_outcome stk_blame_loss(struct stk_request *request, const struct stk_lane *lane,
                                     const struct stk_worker *worker, stoker_status *out_status);
struct stk_bad_sample {
    uint64_t sample_id;
    stoker_status status;
    struct stk_span text, cause; /* with and without the sample's name */
};
/* A sample is bad for good if its data is at fault and no try is left: it is told if it is skipped, and listed. */
void stk_blame_answer(struct stk_server *server, const struct stk_lane *lane, const struct stk_worker *worker,
                      const struct stk_bad_sample *bad);
void stk_blame_bad(struct stk_server *server, const struct stk_lane *lane, const struct stk_bad_sample *bad);
/* True if the item's sample is on the lane's list: then it has ended, without a try. */
bool stk_blame_pass_over(struct stk_server *server, const struct stk_item *item);
/* Other ids for the listed samples of a ragged batch, before it is laid out. False: all of it is listed. */
bool stk_blame_leave_out(struct stk_server *server, const struct stk_lane *lane, struct stk_request *request);

/* answer.c */
extern const struct stk_pool_ops stk_server_pool_ops;

/* status.c */
void stk_status_send(struct stk_connection *connection, uint64_t token);

void stk_server_event(struct stk_server *server, struct stk_event event);

#endif
