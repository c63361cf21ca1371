/* SPDX-License-Identifier: Apache-2.0
 *
 * A real DataServer in a process of its own, and ranks that speak to it message by message: for tests of what a well
 * behaved client never does, and of what it never sees. The test program plays the other programs too: called with
 * "worker" it is a native worker, called with "template" the template of a Python lane whose workers do what the
 * request's payload says:
 *
 *     fill N B      a batch of N bytes B, and the letters "skel" as its skeleton
 *     fail TEXT     fails with CORRUPT and TEXT
 *     die           kills itself (SIGKILL)
 *     die-once N B  kills itself on the first try, then as fill
 *     wait-once N B waits for SIGUSR1 on the first try, then as fill
 *     hang          never answers
 *     hang-once N B never answers on the first try, then as fill
 */
#ifndef STK_TESTS_PLANE_SERVER_H
#define STK_TESTS_PLANE_SERVER_H

#include <stdint.h>
#include <sys/types.h>

#include <stoker/loader.h>

#include "control/channel.h"
#include "source/source.h"
#include "transport/shm.h"

struct plane_server {
    pid_t pid;
    int stop_fd; /* write end: closing it stops the server */
    char name[64], key[65];
};

struct plane_rank {
    struct stk_channel *channel;
    struct stk_shm_table *segments;
    struct stk_incoming in;
    char last_notice[512]; /* id and text of the last NOTICE that was passed over */
    int notices;
    uint32_t orders;
};

/* Plays worker or template if the arguments say so, and does not return then. Call it first in main(). */
void plane_play(int argc, char **argv);

void plane_start(struct plane_server *server);
/* With another loop in place of stoker_dataserver_run(). */
typedef stoker_status (*plane_run_fn)(const stoker_dataserver_options *options, stoker_error *err);
void plane_start_with(struct plane_server *server, plane_run_fn run);
/* Waits for the end of the server's process and gives its exit status: 0 if stoker_dataserver_run() returned OK. */
int plane_wait(struct plane_server *server);
int plane_stop(struct plane_server *server); /* says stop, then waits */

void plane_connect(struct plane_server *server, struct plane_rank *rank);
/* Connects and says HELLO; expects WELCOME. */
void plane_join(struct plane_server *server, struct plane_rank *rank, uint32_t local_rank, uint32_t local_world_size);
/* The same, with one CPU as the rank's set. */
void plane_join_on(struct plane_server *server, struct plane_rank *rank, uint32_t local_rank, uint32_t local_world_size,
                   uint32_t cpu);
/* Number of CPUs that a process may use; mask has STK_CPU_MASK_BYTES_MAX bytes. */
int plane_cpus_of(pid_t pid, uint8_t *mask);
void plane_leave(struct plane_rank *rank); /* BYE and close */
void plane_close(struct plane_rank *rank); /* without a word */

#define PLANE_SEND(rank, type, name, message) PLANE_SEND_FDS(rank, type, name, message, NULL, 0)
#define PLANE_SEND_FDS(rank, type, name, message, fds, fd_count)                                                       \
    do {                                                                                                               \
        stoker_status plane_status;                                                                                    \
        STK_CHANNEL_SEND(plane_status, (rank)->channel, type, name, message, fds, fd_count, NULL);                     \
        assert_int_equal(plane_status, STOKER_OK);                                                                     \
        assert_int_equal(stk_channel_flush_wait((rank)->channel, UINT64_MAX, NULL), STOKER_OK);                        \
    } while (0)

/* The next message that is no NOTICE, which must be of this type; at most 20 s. */
void plane_expect(struct plane_rank *rank, uint16_t type);
/* The server must close the connection; what it sends before is passed over. */
void plane_expect_closed(struct plane_rank *rank);

struct plane_loader {
    uint32_t loader_id;
    uint32_t num_workers, batch_samples_max, on_error, retries;
    uint64_t max_bytes, stall_limit_ns;
    const char *name; /* NULL: none */
    uint32_t isolation;
    uint64_t worker_bytes, sample_cpu_ns; /* 0: no limit */
    const char *quarantine;               /* path of a list of bad files, read as it is now; NULL: none */
};

void plane_open(struct plane_rank *rank, const stoker_source *source, const struct plane_loader *loader);
void plane_begin(struct plane_rank *rank, uint32_t loader_id, uint32_t generation);
void plane_request_ids(struct plane_rank *rank, uint32_t loader_id, uint32_t generation, uint64_t sequence,
                       const uint64_t *ids, size_t count);
void plane_request(struct plane_rank *rank, uint32_t loader_id, uint32_t generation, uint64_t sequence,
                   const char *payload);
void plane_request_part(struct plane_rank *rank, uint64_t sequence, uint32_t part, uint32_t parts, const char *payload);
/* Expects READY of this batch, maps it and gives its bytes. */
struct plane_batch {
    struct stk_message_ready ready;
    struct stk_shm_mapping *mapping;
    uint8_t *data;
};
void plane_take(struct plane_rank *rank, uint64_t sequence, struct plane_batch *out);
void plane_map(struct plane_rank *rank, const struct stk_message_ready *ready, struct plane_batch *out);
/* Tells that next() handed out the batch. */
void plane_step(struct plane_rank *rank, const struct plane_batch *batch);
void plane_release(struct plane_rank *rank, struct plane_batch *batch);
/* Expects FAILED of this batch and gives its status; text is cut at size. */
stoker_status plane_take_failure(struct plane_rank *rank, uint64_t sequence, char *text, size_t size);

/* STATUS text, valid until the next message. */
const char *plane_status(struct plane_rank *rank);
/* Number after "name": in a status text, from `from` on; fails the test if it is not there. */
long long plane_number(const char *text, const char *name);
/* Asks for the status until `name` has this value; at most 20 s. */
void plane_wait_number(struct plane_rank *rank, const char *name, long long value);
/* Pid of the n-th worker that is in this state, waiting for it; at most 20 s. */
pid_t plane_wait_worker(struct plane_rank *rank, const char *state, int n);
/* Pid of the n-th busy worker once it has read its task, which must be one of those that hang or wait. Killed before
 * that, it would cost no try; "busy" alone does not tell. */
pid_t plane_wait_begun(struct plane_rank *rank, int n);

/* A source whose template is this program. */
stoker_source *plane_process_source(void);
/* One whose template does something else: "bad": reports a failure; "crash": just ends; "stillborn": its workers end at
 * once; "deaf": never forks. */
stoker_source *plane_bad_source(const char *how);

#endif
