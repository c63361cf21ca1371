/* SPDX-License-Identifier: Apache-2.0
 *
 * A DataServer that a test plays by hand: it listens at the address of a job key, greets the client, and then the
 * test reads what the client sent and answers message by message. Calls of the client that wait for an answer (open)
 * are served by a thread that lives for that call only. Every wait has a limit and fails the test.
 */
#ifndef STK_TESTS_FAKE_DATASERVER_H
#define STK_TESTS_FAKE_DATASERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/loader.h>

#include "control/channel.h"
#include "plane/discover.h"
#include "source/source.h"
#include "wire/message.h"

enum { FAKE_SERVER_PID = 4242, FAKE_SAMPLES = 100, FAKE_SAMPLE_BYTES = 1024, FAKE_SEGMENTS_MAX = 8 };

struct fake_segment {
    uint64_t segment_id, size;
    int fd;
    int sent; /* the client was given the descriptor */
    uint8_t *memory;
};

struct fake_server {
    char job_key[64], key[STK_KEY_BYTES];
    int listen_fd;
    struct stk_channel *channel;
    struct stk_incoming incoming; /* last message of fake_expect() */
    stoker_client *client;
    struct fake_segment segments[FAKE_SEGMENTS_MAX];
    uint64_t next_slab;
    /* what the client said when it registered */
    uint32_t rank, world_size;
    int64_t pid;
    /* what the greeting and the next open are answered with */
    stoker_status verdict;
    const char *verdict_text;
    const void *verdict_detail;
    size_t verdict_detail_size;
    const char *version;
    /* called with arm_n around the calls of the client that are served by a thread, then with 0: makes them fail */
    void (*arm_fn)(uint64_t n);
    uint64_t arm_n;
    /* the last LOADER_OPEN */
    struct stk_message_loader_open loader_open;
    uint32_t loader_open_fds;
};

/* Opens a listening socket under a key of its own. */
void fake_start(struct fake_server *fake);
void fake_stop(struct fake_server *fake);
/* Closes the connection and the address, as a process that dies does. */
void fake_die(struct fake_server *fake);

/* Options that reach this server. */
stoker_client_options fake_options(const struct fake_server *fake);
/* Opens a client while a thread greets it. */
stoker_status fake_greet(struct fake_server *fake, const stoker_client_options *options, stoker_client **out_client,
                         stoker_error *err);
void fake_open_client(struct fake_server *fake);
/* Opens a loader of a source of FAKE_SAMPLES samples while a thread answers. */
stoker_status fake_answer_open(struct fake_server *fake, enum stk_source_kind kind,
                               const stoker_loader_options *options, stoker_loader **out_loader, stoker_error *err);
/* The same, but the server dies instead of answering. */
stoker_status fake_die_at_open(struct fake_server *fake, const stoker_loader_options *options,
                               stoker_loader **out_loader, stoker_error *err);
/* All of it: loader of the kind, in its first iteration; LOADER_BEGIN was received. */
stoker_loader *fake_open_loader(struct fake_server *fake, enum stk_source_kind kind);
/* Requests a batch of `count` samples from id 0 (native) and receives the message. Returns its sequence. */
uint64_t fake_request(struct fake_server *fake, stoker_loader *loader, uint32_t count);

/* Waits for the client's next message and checks its type; STEP and RELEASE, whose place among the others is open, are
 * skipped unless asked for. The result is valid until the next call. */
struct stk_incoming *fake_expect(struct fake_server *fake, uint16_t type);
/* The same, where messages of another type may come first: did one? */
struct stk_incoming *fake_expect_or_after(struct fake_server *fake, uint16_t type, uint16_t other, bool *out_came);
/* Receives until a RELEASE arrives, skipping STEP, and returns its slabs. */
size_t fake_expect_release(struct fake_server *fake, uint64_t *out_slabs, size_t cap);
/* Waits until the client has closed the connection; *out_bye: it said BYE. */
void fake_expect_end(struct fake_server *fake, int *out_bye);

/* Answers. READY: `count` samples, each filled with the byte (sequence + 1), in a new slab of segment_id (made on
 * first use). */
struct fake_answer {
    uint32_t loader_id, generation;
    uint64_t sequence;
    uint32_t flags;
};
uint64_t fake_ready(struct fake_server *fake, struct fake_answer answer, uint64_t segment_id, uint32_t count);
/* Makes a segment before its first use. */
void fake_prepare(struct fake_server *fake, uint64_t segment_id);
void fake_failed(struct fake_server *fake, struct fake_answer answer, stoker_status status, const char *text,
                 const char *detail);
void fake_unmap(struct fake_server *fake, uint64_t segment_id);
void fake_notice(struct fake_server *fake, stoker_log_level level, const char *id, const char *text);
void fake_flush(struct fake_server *fake);

#endif
