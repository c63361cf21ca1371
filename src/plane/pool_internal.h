/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the pool share: pool.c (workers), template.c (crews of process sources), watch.c (what happens
 * over time).
 */
#ifndef STK_PLANE_POOL_INTERNAL_H
#define STK_PLANE_POOL_INTERNAL_H

#include "base/limits.h"
#include "plane/pool.h"

#define STK_GRACE_NS STK_SECOND_NS               /* told to end -> killed */
#define STK_STUCK_NS (2 * STK_SECOND_NS)         /* killed -> reported stuck */
#define STK_STOPPED_LIMIT_NS (5 * STK_SECOND_NS) /* in state T with work at hand -> killed */
#define STK_LOOK_NS_MIN (STK_SECOND_NS / 100)    /* a busy worker is not looked at more often */
#define STK_FORK_LIMIT_NS (60 * STK_SECOND_NS)   /* a template that does not answer FORK -> killed */
#define STK_DEATHS_WINDOW_NS (10 * STK_SECOND_NS)
#define STK_DEATHS_MAX 5u /* idle workers that end within the window, no task finished between: the crew gives up */

enum stk_crew_state { STK_CREW_CLOSED, STK_CREW_LOADING, STK_CREW_OPEN, STK_CREW_BROKEN, STK_CREW_CLOSING };

struct stk_template {
    pid_t pid; /* 0: none */
    int pidfd;
    struct stk_link link;
    struct stk_watch life;
    uint64_t kill_at_ns, killed_at_ns, stopped_since_ns;
    uint64_t fork_since_ns; /* oldest FORK that is not answered; 0: none */
    uint32_t forks;         /* not answered */
    const char *ending;     /* why it was killed; NULL: not by us */
    bool loaded;            /* it has its dataset */
    bool retry;             /* another is to be started when it has ended */
};

struct stk_crew {
    enum stk_crew_state state;
    bool at_once; /* closing without grace */
    uint32_t number, size, live;
    uint32_t idle_head, idle_count;
    uint32_t *members; /* [member_cap] index of the worker, or STK_WORKER_NONE */
    uint32_t member_cap;
    uint32_t deaths;
    uint64_t first_death_ns, respawn_at_ns;
    bool missing;  /* members below size may be without a worker */
    bool reloaded; /* its template was started again, and no task finished since */
    const stoker_source *source;
    struct stk_template template;
    struct stk_pool *pool;
};

struct stk_pool {
    /* Fixed after create. */
    struct stk_pool_options options;
    /* Owned by the loop. */
    struct stk_crew *crews;     /* [STK_CREWS_MAX] */
    struct stk_worker *workers; /* [STK_WORKERS_MAX] */
    uint32_t worker_high;       /* entries from here on were never used */
    uint32_t worker_live;
    uint32_t crew_high;
    uint64_t next_tick_ns;
    uint8_t cpu_mask[STK_CPU_MASK_BYTES_MAX];
    size_t cpu_mask_size;
    struct stk_native_rights rights; /* of native workers to come */
    struct stk_pool_stats stats;
};

/* pool.c */
void stk_pool_tick_before(struct stk_pool *pool, uint64_t time_ns);
struct stk_worker *stk_worker_create(struct stk_pool *pool, struct stk_crew *crew, uint32_t member, int socket_fd,
                                     stoker_error *err);
/* The process is known: watches it. Takes pidfd. */
stoker_status stk_worker_started(struct stk_worker *worker, pid_t pid, int pidfd, stoker_error *err);
void stk_worker_make_idle(struct stk_worker *worker);
/* Told to end by a closed socket, killed after the grace. */
void stk_worker_end(struct stk_worker *worker, uint64_t now_ns);
void stk_worker_free(struct stk_worker *worker); /* without a word to the owner: it never held anything */
stoker_status stk_crew_reserve(struct stk_crew *crew, uint32_t size, stoker_error *err);
/* Starts what is missing, unless it is backing off. */
void stk_crew_fill(struct stk_crew *crew, uint64_t now_ns);
/* A worker could not be started, or ended without having been at work. May break the crew. */
void stk_crew_count_death(struct stk_crew *crew, uint64_t now_ns, const char *why);
void stk_crew_break(struct stk_crew *crew, const struct stk_message_verdict *verdict);
/* Starts another template for a crew that gave up. */
void stk_crew_reload(struct stk_crew *crew);
/* Goes on with closing once the workers are gone. */
void stk_crew_check_closed(struct stk_crew *crew);
/* What became of a child or of a template's child: "killed by signal 9 (Killed)", or "ended" if nothing tells. Reaps it
 * if it is ours. Gives the signal, or 0. */
int stk_child_reap(pid_t pid, int pidfd, char *out, size_t size);
/* How long until a busy worker is looked at again. */
uint64_t stk_worker_look_ns(const struct stk_worker *worker);

/* template.c */
stoker_status stk_template_start(struct stk_crew *crew, stoker_error *err);
stoker_status stk_template_fork(struct stk_crew *crew, uint32_t member, stoker_error *err);
void stk_template_end(struct stk_crew *crew, bool at_once, uint64_t now_ns);
void stk_template_kill(struct stk_crew *crew, const char *why, uint64_t now_ns);

#endif
