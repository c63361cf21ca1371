/* SPDX-License-Identifier: Apache-2.0
 *
 * The DataServer that a test plays by hand; see fake_dataserver.h.
 */
#include "tests/support/unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "base/limits.h"
#include "sys/clock.h"
#include "sys/shmem.h"
#include "sys/thread.h"
#include "tests/support/fake_dataserver.h"

#define PATIENCE_NS (20 * STK_SECOND_NS) /* a test that waits longer has failed */

static void check(stoker_status status, const stoker_error *error)
{
    if (status < 0) fail_msg("%s: %s", stoker_status_name(status), error->message);
}

/* ---------------------------------------------------------------------------------------------------------- lifetime
 * */

void fake_start(struct fake_server *fake)
{
    static atomic_uint counter;
    stoker_error error;
    char name[STK_NAME_BYTES];
    memset(fake, 0, sizeof *fake);
    (void)snprintf(fake->job_key, sizeof fake->job_key, "fake %ld %u", (long)getpid(), atomic_fetch_add(&counter, 1));
    check(stk_discover_key(fake->job_key, fake->key, &error), &error);
    stk_discover_name(fake->key, name);
    check(stk_unix_listen(name, &fake->listen_fd, &error), &error);
    fake->next_slab = 1;
    fake->version = STOKER_VERSION;
}

void fake_die(struct fake_server *fake)
{
    stk_channel_destroy(fake->channel);
    fake->channel = NULL;
    if (fake->listen_fd >= 0) (void)close(fake->listen_fd);
    fake->listen_fd = -1;
}

void fake_stop(struct fake_server *fake)
{
    fake_die(fake);
    for (int i = 0; i < FAKE_SEGMENTS_MAX; i++) {
        struct fake_segment *segment = &fake->segments[i];
        if (!segment->segment_id) continue;
        stk_shmem_unmap(segment->memory, segment->size);
        (void)close(segment->fd);
    }
}

stoker_client_options fake_options(const struct fake_server *fake)
{
    stoker_client_options options = STOKER_CLIENT_OPTIONS_INIT;
    options.job_key = fake->job_key;
    return options;
}

/* ---------------------------------------------------------------------------------------------------------- opening */

static void accept_client(struct fake_server *fake)
{
    stoker_error error;
    int64_t pid;
    int fd;
    struct pollfd polled = {.fd = fake->listen_fd, .events = POLLIN};
    if (poll(&polled, 1, (int)(PATIENCE_NS / 1000000)) != 1)
        abort(); /* assertions of cmocka belong to the main thread */
    if (stk_unix_accept(fake->listen_fd, &fd, &pid, &error) != STOKER_OK) abort();
    if (stk_channel_create(fd, 7, &fake->channel, &error) != STOKER_OK) abort();
}

static struct stk_incoming *receive_any(struct fake_server *fake)
{
    stoker_error error;
    stoker_status status =
        stk_channel_receive_wait(fake->channel, stk_clock_now_ns() + PATIENCE_NS, &fake->incoming, &error);
    return status == STOKER_OK ? &fake->incoming : NULL;
}

static void send_verdict(struct fake_server *fake, uint16_t type, uint32_t loader_id)
{
    const char *text = fake->verdict_text ? fake->verdict_text : "";
    struct stk_message_verdict verdict = {.loader_id = loader_id,
                                          .status = fake->verdict,
                                          .text = {text, strlen(text)},
                                          .detail = {fake->verdict_detail, fake->verdict_detail_size}};
    stoker_status status;
    STK_CHANNEL_SEND(status, fake->channel, type, verdict, &verdict, NULL, 0, NULL);
    if (status < 0) abort();
}

static void greet(void *argument)
{
    struct fake_server *fake = argument;
    accept_client(fake);
    struct stk_incoming *incoming = receive_any(fake);
    struct stk_message_hello hello;
    if (!incoming && fake->arm_fn) return;
    if (!incoming || incoming->frame.type != STK_MESSAGE_HELLO) abort();
    if (stk_hello_decode(incoming->body, &hello, NULL) != STOKER_OK) abort();
    if (hello.key.size != STK_KEY_BYTES - 1 || memcmp(hello.key.data, fake->key, hello.key.size) != 0) abort();
    fake->rank = hello.rank;
    fake->world_size = hello.world_size;
    fake->pid = hello.pid;
    if (fake->verdict != STOKER_OK) {
        send_verdict(fake, STK_MESSAGE_REFUSED, 0);
        return;
    }
    struct stk_message_welcome welcome = {.pid = FAKE_SERVER_PID, .version = {fake->version, strlen(fake->version)}};
    stoker_status status;
    STK_CHANNEL_SEND(status, fake->channel, STK_MESSAGE_WELCOME, welcome, &welcome, NULL, 0, NULL);
    if (status < 0) abort();
}

/* A client that failed may never have connected: the greeter, who waits for somebody, gets this nobody. */
static void poke(const struct fake_server *fake)
{
    char name[STK_NAME_BYTES];
    int fd;
    stk_discover_name(fake->key, name);
    if (stk_unix_connect(name, &fd, NULL) == STOKER_OK) (void)close(fd);
}

stoker_status fake_greet(struct fake_server *fake, const stoker_client_options *options, stoker_client **out_client,
                         stoker_error *err)
{
    struct stk_thread *thread;
    stoker_error error;
    check(stk_thread_start("greeter", greet, fake, &thread, &error), &error);
    if (fake->arm_fn) fake->arm_fn(fake->arm_n);
    stoker_status status = stoker_client_open(options, out_client, err);
    if (fake->arm_fn) {
        fake->arm_fn(0);
        if (status != STOKER_OK) poke(fake);
    }
    stk_thread_join(thread);
    return status;
}

void fake_open_client(struct fake_server *fake)
{
    stoker_error error;
    stoker_client_options options = fake_options(fake);
    check(fake_greet(fake, &options, &fake->client, &error), &error);
}

static uint64_t fake_count(const struct stoker_source *source)
{
    (void)source; /* all have the same */
    return FAKE_SAMPLES;
}

static stoker_status fake_describe(const struct stoker_source *source, uint64_t id, stoker_descriptor *out,
                                   stoker_error *err)
{
    (void)source; /* all samples are alike, no descriptor fails */
    (void)err;
    *out = (stoker_descriptor){.id = id, .dtype = STOKER_DTYPE_UINT8, .ndim = 1, .sample_bytes = FAKE_SAMPLE_BYTES};
    out->shape[0] = FAKE_SAMPLE_BYTES;
    return STOKER_OK;
}

static void answer_open(void *argument)
{
    struct fake_server *fake = argument;
    struct stk_incoming *incoming = receive_any(fake);
    if (incoming && fake->arm_fn && incoming->frame.type == STK_MESSAGE_STATUS_QUERY) return;
    if (!incoming || incoming->frame.type != STK_MESSAGE_LOADER_OPEN) abort();
    if (stk_loader_open_decode(incoming->body, &fake->loader_open, NULL) != STOKER_OK) abort();
    fake->loader_open_fds = incoming->fd_count;
    send_verdict(fake, fake->verdict == STOKER_OK ? STK_MESSAGE_LOADER_OPENED : STK_MESSAGE_LOADER_FAILED,
                 fake->loader_open.loader_id);
}

static stoker_status open_loader(struct fake_server *fake, enum stk_source_kind kind,
                                 const stoker_loader_options *options, stoker_loader **out_loader, stoker_error *err)
{
    static const struct stk_source_ops ops = {.count = fake_count, .describe = fake_describe};
    struct stoker_source source = {.ops = &ops, .kind = kind, .payload_fd = -1};
    stoker_error error;
    check(stk_shmem_blob_create("blob", 4, &source.blob_fd, &error), &error);
    if (kind == STK_SOURCE_PROCESS) check(stk_shmem_blob_create("data", 4, &source.payload_fd, &error), &error);
    if (fake->arm_fn) fake->arm_fn(fake->arm_n);
    stoker_status status = stoker_loader_open(fake->client, &source, options, out_loader, err);
    if (fake->arm_fn) {
        fake->arm_fn(0);
        char *json; /* a question that is not answered ends the wait of the opener */
        if (status != STOKER_OK) (void)stoker_client_status(fake->client, 0, &json, NULL);
    }
    (void)close(source.blob_fd);
    if (source.payload_fd >= 0) (void)close(source.payload_fd);
    return status;
}

stoker_status fake_answer_open(struct fake_server *fake, enum stk_source_kind kind,
                               const stoker_loader_options *options, stoker_loader **out_loader, stoker_error *err)
{
    struct stk_thread *thread;
    stoker_error error;
    check(stk_thread_start("opener", answer_open, fake, &thread, &error), &error);
    stoker_status status = open_loader(fake, kind, options, out_loader, err);
    stk_thread_join(thread);
    return status;
}

static void read_open_and_die(void *argument)
{
    struct fake_server *fake = argument;
    struct stk_incoming *incoming = receive_any(fake);
    if (!incoming || incoming->frame.type != STK_MESSAGE_LOADER_OPEN) abort();
    fake_die(fake);
}

stoker_status fake_die_at_open(struct fake_server *fake, const stoker_loader_options *options,
                               stoker_loader **out_loader, stoker_error *err)
{
    struct stk_thread *thread;
    stoker_error error;
    check(stk_thread_start("opener", read_open_and_die, fake, &thread, &error), &error);
    stoker_status status = open_loader(fake, STK_SOURCE_MEDIA, options, out_loader, err);
    stk_thread_join(thread);
    return status;
}

stoker_loader *fake_open_loader(struct fake_server *fake, enum stk_source_kind kind)
{
    stoker_error error;
    stoker_loader *loader = NULL;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    options.batch_samples_max = 8;
    check(fake_answer_open(fake, kind, &options, &loader, &error), &error);
    check(stoker_loader_begin(loader, &error), &error);
    (void)fake_expect(fake, STK_MESSAGE_LOADER_BEGIN);
    return loader;
}

uint64_t fake_request(struct fake_server *fake, stoker_loader *loader, uint32_t count)
{
    stoker_error error;
    uint64_t ids[8];
    assert_true(count <= 8);
    for (uint32_t i = 0; i < count; i++) ids[i] = i;
    stoker_request request = {.ids = ids, .id_count = count};
    check(stoker_loader_request(loader, &request, &error), &error);
    struct stk_message_request message;
    check(stk_request_decode(fake_expect(fake, STK_MESSAGE_REQUEST)->body, &message, &error), &error);
    assert_int_equal(message.ids.size, count * sizeof(uint64_t));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(stk_load_u64((const uint8_t *)message.ids.data + i * sizeof(uint64_t)), i);
    }
    return message.sequence;
}

/* ----------------------------------------------------------------------------------------------------------
 * receiving */

struct stk_incoming *fake_expect_or_after(struct fake_server *fake, uint16_t type, uint16_t other, bool *out_came)
{
    *out_came = false;
    for (;;) {
        struct stk_incoming *incoming = receive_any(fake);
        if (!incoming) fail_msg("no message within the limit, %u was expected", type);
        uint16_t got = incoming->frame.type;
        if (got == type) return incoming;
        if (got != STK_MESSAGE_STEP && got != other) fail_msg("message %u came, %u was expected", got, type);
        *out_came |= got == other;
    }
}

struct stk_incoming *fake_expect(struct fake_server *fake, uint16_t type)
{
    bool released;
    return fake_expect_or_after(fake, type, STK_MESSAGE_RELEASE, &released);
}

size_t fake_expect_release(struct fake_server *fake, uint64_t *out_slabs, size_t cap)
{
    struct stk_incoming *incoming = fake_expect(fake, STK_MESSAGE_RELEASE);
    struct stk_message_release release;
    stoker_error error;
    check(stk_release_decode(incoming->body, &release, &error), &error);
    size_t count = release.slabs.size / sizeof(uint64_t);
    assert_true(count <= cap);
    for (size_t i = 0; i < count; i++)
        out_slabs[i] = stk_load_u64((const uint8_t *)release.slabs.data + i * sizeof(uint64_t));
    return count;
}

void fake_expect_end(struct fake_server *fake, int *out_bye)
{
    stoker_error error;
    stoker_status status;
    *out_bye = 0;
    do {
        status = stk_channel_receive_wait(fake->channel, stk_clock_now_ns() + PATIENCE_NS, &fake->incoming, &error);
        if (status == STOKER_OK && fake->incoming.frame.type == STK_MESSAGE_BYE) *out_bye = 1;
    } while (status == STOKER_OK);
    if (status == STOKER_AGAIN) fail_msg("the client did not close the connection within the limit");
}

/* ----------------------------------------------------------------------------------------------------------
 * answering */

static struct fake_segment *find_segment(struct fake_server *fake, uint64_t segment_id)
{
    stoker_error error;
    for (int i = 0; i < FAKE_SEGMENTS_MAX; i++) {
        struct fake_segment *segment = &fake->segments[i];
        if (segment->segment_id == segment_id) return segment;
        if (segment->segment_id) continue;
        void *memory = NULL;
        segment->segment_id = segment_id;
        segment->size = 1 << 20;
        check(stk_shmem_create(NULL, segment->size, &segment->fd, &error), &error);
        check(stk_shmem_map(segment->fd, segment->size, 0, &memory, &error), &error);
        segment->memory = memory;
        return segment;
    }
    fail_msg("too many segments");
    return NULL;
}

void fake_prepare(struct fake_server *fake, uint64_t segment_id) { (void)find_segment(fake, segment_id); }

uint64_t fake_ready(struct fake_server *fake, struct fake_answer answer, uint64_t segment_id, uint32_t count)
{
    struct fake_segment *segment = find_segment(fake, segment_id);
    uint64_t slab_id = fake->next_slab++, size = (uint64_t)count * FAKE_SAMPLE_BYTES;
    uint64_t offset = slab_id % 16 * (64u << 10);
    memset(segment->memory + offset, (int)(answer.sequence + 1), size);
    struct stk_message_ready ready = {
        .loader_id = answer.loader_id,
        .generation = answer.generation,
        .sequence = answer.sequence,
        .flags = answer.flags,
        .samples_skipped = 1,
        .tasks_retried = 2,
        .ready_ns = 1000,
        .region = {slab_id, segment_id, segment->size, offset, size, !segment->sent},
        .leaf_count = 1,
        .leaves = {{.dtype = STOKER_DTYPE_UINT8, .ndim = 2, .shape = {count, FAKE_SAMPLE_BYTES}, .size = size}},
    };
    stoker_status status;
    stoker_error error;
    STK_CHANNEL_SEND(status, fake->channel, STK_MESSAGE_READY, ready, &ready, &segment->fd, segment->sent ? 0 : 1,
                     &error);
    check(status, &error);
    segment->sent = 1;
    return slab_id;
}

void fake_failed(struct fake_server *fake, struct fake_answer answer, stoker_status status, const char *text,
                 const char *detail)
{
    struct stk_message_failed failed = {
        .loader_id = answer.loader_id,
        .generation = answer.generation,
        .sequence = answer.sequence,
        .status = status,
        .text = {text, strlen(text)},
        .detail = {detail, detail ? strlen(detail) : 0},
    };
    stoker_error error;
    STK_CHANNEL_SEND(status, fake->channel, STK_MESSAGE_FAILED, failed, &failed, NULL, 0, &error);
    check(status, &error);
}

void fake_unmap(struct fake_server *fake, uint64_t segment_id)
{
    struct stk_message_unmap unmap = {segment_id};
    stoker_status status;
    stoker_error error;
    STK_CHANNEL_SEND(status, fake->channel, STK_MESSAGE_UNMAP, unmap, &unmap, NULL, 0, &error);
    check(status, &error);
    find_segment(fake, segment_id)->sent = 0;
}

void fake_notice(struct fake_server *fake, stoker_log_level level, const char *id, const char *text)
{
    struct stk_message_notice notice = {.level = level, .id = {id, strlen(id)}, .text = {text, strlen(text)}};
    stoker_status status;
    stoker_error error;
    STK_CHANNEL_SEND(status, fake->channel, STK_MESSAGE_NOTICE, notice, &notice, NULL, 0, &error);
    check(status, &error);
}

void fake_flush(struct fake_server *fake)
{
    stoker_error error;
    check(stk_channel_flush_wait(fake->channel, stk_clock_now_ns() + PATIENCE_NS, &error), &error);
}
