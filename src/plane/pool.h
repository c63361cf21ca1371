/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker processes of one DataServer: start, feed, watch, kill, replace.
 *
 *     crew    interchangeable workers; its number is the pool of sched/dispatch: 0 the native ones, lane + 1 those of
 *             a Python lane
 *     member  a place in a crew, 0..size-1 (what a Python worker calls its id); a worker that ends is replaced under
 *             the same number
 *
 * Native workers are started by the DataServer; those of a Python lane are forked by the lane's template process,
 * which loads the dataset once. A worker is *gone* when the kernel says that the process has ended, never before: only
 * then is memory that it was given used again (rule A4). One that was killed and does not end within two seconds is
 * reported *stuck*.
 *
 * One owner: the DataServer's loop. Callbacks run in pool calls; from inside them the pool may be asked for workers
 * and told to kill, not to close crews.
 */
#ifndef STK_PLANE_POOL_H
#define STK_PLANE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <stoker/error.h>
#include <stoker/service.h>

#include "obs/log.h"
#include "plane/loop.h"
#include "source/source.h"

#define STK_CREW_NATIVE 0u
#define STK_CREWS_MAX (STK_LANES_MAX + 1u)
#define STK_WORKER_SLABS_MAX 16u /* slabs that one task may be given: its first and what it asked for since */
#define STK_WORKER_NONE UINT32_MAX

struct stk_pool;

enum stk_worker_state {
    STK_WORKER_FREE,    /* no process; the entry may be used again */
    STK_WORKER_FORKING, /* the template was asked for it */
    STK_WORKER_IDLE,
    STK_WORKER_BUSY,
    STK_WORKER_ENDING /* told to end or killed; not gone yet */
};

/* What a native worker is started with. */
struct stk_native_rights {
    stoker_isolation isolation;
    uint64_t max_bytes; /* of private memory; 0: no limit */
    bool network;       /* a source of theirs lies in object storage */
};

enum stk_isolated { STK_ISOLATED_UNKNOWN, STK_ISOLATED_YES, STK_ISOLATED_NO };

struct stk_worker {
    /* Fixed while the process lives. */
    uint32_t index, crew, member;
    struct stk_native_rights rights; /* of a native worker */
    uint32_t process;                /* number of the process in the arena's books */
    pid_t pid;
    int pidfd;
    struct stk_pool *pool;
    struct stk_link link;
    struct stk_watch life;
    /* Changed by the pool. */
    enum stk_worker_state state;
    uint32_t next_idle;
    uint64_t busy_since_ns, stopped_since_ns;
    uint64_t kill_at_ns;   /* told to end: killed then. 0: no such time */
    uint64_t killed_at_ns; /* 0: not killed */
    bool stuck, finished_any;
    bool told_more; /* something was sent, or asked for, after its task */
    bool unread;    /* it ended with bytes of ours unread: if nothing was sent after the task, it never began it */
    bool expected;  /* its end is what we asked for */
    bool stalled;   /* killed because it was busy or stopped for too long */
    bool overran;   /* killed because its sample took more CPU time than it may */
    int end_signal; /* that ended it; 0: none, or not known */
    enum stk_isolated isolated; /* what it said of itself */
    char ending[192];           /* why it ended, for messages */
    /* Set by the owner of the pool with stk_pool_engage(). */
    uint64_t item_id; /* 0: none */
    uint32_t batch;   /* STK_WORKER_NONE: the batch went on without this worker */
    uint32_t index_in_batch, attempt;
    uint64_t sample_id;
    bool copies; /* its item copies a sample */
    uint64_t stall_limit_ns;
    uint64_t cpu_limit_ns, cpu_began_ns; /* of its process; limit 0: none */
    uint64_t slabs[STK_WORKER_SLABS_MAX];
    uint32_t slab_count;
    uint8_t sources[STK_LANES_MAX / 8]; /* bit per source entry whose blob it was sent */
};

struct stk_pool_ops {
    /* A message of the worker (NEED, DONE). A refusal kills it with this text. */
    stoker_status (*message)(void *user, struct stk_worker *worker, const struct stk_incoming *in, stoker_error *err);
    /* The process has ended; item_id and slabs are what it held, `ending` says why. */
    void (*gone)(void *user, struct stk_worker *worker);
    /* Killed two seconds ago and still there. Called once. */
    void (*stuck)(void *user, struct stk_worker *worker);
    /* The template of a crew has loaded its dataset. */
    void (*opened)(void *user, uint32_t crew);
    /* A crew gave up: its template failed or ended, or its workers die at once. text and detail are borrowed. */
    void (*broken)(void *user, uint32_t crew, const struct stk_message_verdict *verdict);
    /* A crew that was closed has no process any more. */
    void (*closed)(void *user, uint32_t crew);
};

struct stk_pool_options {
    struct stk_loop *loop;
    const struct stk_log *log;
    const char *program; /* of native workers; borrowed for the pool's life */
    uint64_t incarnation;
    uint32_t *process_count; /* last process number that was given out, shared with the ranks */
    const struct stk_pool_ops *ops;
    void *user;
};

stoker_status stk_pool_create(const struct stk_pool_options *options, struct stk_pool **out_pool, stoker_error *err);
/* Kills every process and waits until it is gone, at most for a second. No callbacks. NULL allowed. */
void stk_pool_destroy(struct stk_pool *pool);

/* The CPUs of processes that exist and of those to come. */
void stk_pool_set_cpus(struct stk_pool *pool, const uint8_t *mask, size_t size);

/* Native workers there shall be: more are started, idle ones are ended, busy ones end when they have finished. */
stoker_status stk_pool_native_resize(struct stk_pool *pool, uint32_t size, stoker_error *err);
/* What native workers are started with from now on. Others end: idle ones now, busy ones when they have finished. */
void stk_pool_native_set_rights(struct stk_pool *pool, const struct stk_native_rights *rights);
/* A native worker says that it cannot work with its rights: the crew gives up with this reason. */
void stk_pool_native_refused(struct stk_pool *pool, const struct stk_message_verdict *verdict);
/* Starts the template of a process source; `opened` or `broken` follows. The source must live until `closed`. */
stoker_status stk_pool_crew_open(struct stk_pool *pool, uint32_t crew, uint32_t size, const stoker_source *source,
                                 stoker_error *err);
/* Ends a crew of a process source: at once, or idle workers and template by themselves and what is left after a
 * second. */
void stk_pool_crew_close(struct stk_pool *pool, uint32_t crew, bool at_once);
/* A crew that gave up tries again; `broken` follows if it fails again. */
void stk_pool_crew_retry(struct stk_pool *pool, uint32_t crew);
bool stk_pool_crew_is_broken(const struct stk_pool *pool, uint32_t crew);

/* An idle worker of the crew, or NULL. It stays idle until engaged. */
struct stk_worker *stk_pool_idle(struct stk_pool *pool, uint32_t crew);
/* The idle worker that stk_pool_idle gave last has a task now. */
void stk_pool_engage(struct stk_worker *worker, uint64_t now_ns, uint64_t item_id, uint32_t batch,
                     uint64_t stall_limit_ns);
/* The task that it was just engaged with may take this much CPU time of its process. */
void stk_pool_limit_cpu(struct stk_worker *worker, uint64_t now_ns, uint64_t limit_ns);
/* A worker that has ended: was it given a task that it never read? Then nothing that it was given did it harm. */
bool stk_worker_never_began(const struct stk_worker *worker);
/* It has finished its task and holds nothing. */
void stk_pool_rest(struct stk_worker *worker);
/* Kills a worker for this reason; `gone` follows when it has ended. */
void stk_pool_kill(struct stk_worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Watches over time: stalls, stopped processes, replacements. Call it when stk_pool_next_tick_ns has come. */
void stk_pool_tick(struct stk_pool *pool, uint64_t now_ns);
uint64_t stk_pool_next_tick_ns(const struct stk_pool *pool);
/* Reaps what became ours because its parent, a template or a worker, ended before it. */
void stk_pool_reap_orphans(struct stk_pool *pool);
/* Drops workers whose links broke while something was sent. */
void stk_pool_sweep(struct stk_pool *pool);

/* Worker of a process number, or NULL. */
struct stk_worker *stk_pool_find_process(struct stk_pool *pool, uint32_t process);
/* Walks all entries in use: start with 0; NULL at the end. */
struct stk_worker *stk_pool_walk(struct stk_pool *pool, uint32_t *cursor);

/* Has the process of a pidfd ended (reaped or not)? */
bool stk_pidfd_ended(int pidfd);

struct stk_crew_info {
    uint32_t size, live, idle;
    bool broken;
    pid_t template_pid; /* 0: none */
};
void stk_pool_read_crew(const struct stk_pool *pool, uint32_t crew, struct stk_crew_info *out);

struct stk_pool_stats {
    uint64_t started, replaced, killed_stalled, killed_stopped, killed_overran, crashed;
};
void stk_pool_read_stats(const struct stk_pool *pool, struct stk_pool_stats *out);

#endif
