/* SPDX-License-Identifier: Apache-2.0
 *
 * See plane_server.h.
 */
#include "tests/support/plane_server.h"
#include "plane/badlist.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stoker/service.h>
#include <stoker/stoker.h>
#include <stoker/worker.h>

#include "base/error.h"
#include "sys/clock.h"
#include "sys/process.h"
#include "tests/support/unit.h"

#define PATIENCE_NS (20 * STK_SECOND_NS)
#define BEGUN "task-begun"

/* ---- the programs that the test plays */

static void fill(stoker_worker_channel *channel, stoker_worker_task *task, const char *arguments)
{
    size_t size = 0;
    unsigned value = 0;
    if (sscanf(arguments, "%zu %u", &size, &value) != 2) _exit(9);
    uint8_t *slab = task->slab;
    size_t total = size + 4, slab_size = task->slab_size;
    stoker_error err = {0};
    if (total > slab_size) {
        void *grown;
        if (stoker_worker_channel_grow(channel, total, &grown, &slab_size, &err) != STOKER_OK) {
            stoker_worker_failure failure = {err.status, err.message, "detail", 6};
            (void)stoker_worker_channel_fail(channel, &failure, NULL);
            return;
        }
        slab = grown;
    }
    memset(slab, (int)value, size);
    memcpy(slab + size, "skel", 4);
    stoker_worker_result result = {.used = total, .skeleton_offset = size, .skeleton_size = 4};
    if (stoker_worker_channel_done(channel, &result, NULL) != STOKER_OK) _exit(8);
}

static volatile sig_atomic_t woken;

static void on_wake(int signal_number)
{
    (void)signal_number;
    woken = 1;
}

/* Says in the process name that the task was read: "busy" in the status only tells that it was sent. */
static void tell(const char *what) { (void)prctl(PR_SET_NAME, what); }

/* Until SIGUSR1, which is blocked outside, so that it cannot come too early. */
static void wait_for_wake(void)
{
    sigset_t mask;
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    (void)sigdelset(&mask, SIGUSR1);
    tell(BEGUN);
    while (!woken) (void)sigsuspend(&mask);
    woken = 0;
    tell("resting");
}

static void obey(stoker_worker_channel *channel, stoker_worker_task *task)
{
    char text[256] = "";
    memcpy(text, task->payload, task->payload_size < 255 ? task->payload_size : 255);
    bool first = task->attempt == 0;
    if (strncmp(text, "die-once ", 9) == 0 && !first) return fill(channel, task, text + 9);
    if (strncmp(text, "hang-once ", 10) == 0 && !first) return fill(channel, task, text + 10);
    if (strncmp(text, "wait-once ", 10) == 0) {
        if (first) wait_for_wake();
        return fill(channel, task, text + 10);
    }
    if (strncmp(text, "die", 3) == 0) (void)raise(SIGKILL);
    if (strncmp(text, "hang", 4) == 0) {
        if (task->slab) memset(task->slab, 0xee, task->slab_size); /* what a retry must not show */
        tell(BEGUN);
        for (;;) (void)pause();
    }
    if (strncmp(text, "fill ", 5) == 0) return fill(channel, task, text + 5);
    if (strncmp(text, "fail ", 5) == 0) {
        stoker_worker_failure failure = {STOKER_ERR_CORRUPT, text + 5, "detail", 6};
        if (stoker_worker_channel_fail(channel, &failure, NULL) != STOKER_OK) _exit(8);
        return;
    }
    _exit(7);
}

static void play_forked_worker(int fd, int64_t parent)
{
    stoker_worker_channel *channel;
    stoker_worker_task task;
    struct sigaction action = {.sa_handler = on_wake};
    sigset_t wake;
    (void)sigemptyset(&wake);
    (void)sigaddset(&wake, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &wake, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
    if (stoker_worker_die_with_parent(parent, NULL) != STOKER_OK) _exit(0);
    if (stoker_worker_channel_open(fd, &channel, NULL) != STOKER_OK) _exit(6);
    stoker_status status;
    while ((status = stoker_worker_channel_next(channel, &task, NULL)) == STOKER_OK) obey(channel, &task);
    stoker_worker_channel_close(channel);
    _exit(status == STOKER_END ? 0 : 5);
}

static void play_template(int control_fd, int payload_fd)
{
    stoker_template_channel *channel;
    char payload[64] = "";
    if (stoker_template_channel_open(control_fd, &channel, NULL) != STOKER_OK) _exit(6);
    if (pread(payload_fd, payload, sizeof payload - 1, 0) < 0) _exit(6);
    if (strcmp(payload, "bad") == 0) {
        (void)stoker_template_channel_report(channel, "cannot unpickle", "trace", 5, NULL);
        _exit(0);
    }
    if (strcmp(payload, "crash") == 0) _exit(3);
    if (strcmp(payload, "deaf") == 0) { /* loads, then never forks, nor ends by itself */
        if (stoker_template_channel_report(channel, NULL, NULL, 0, NULL) != STOKER_OK) _exit(5);
        for (;;) (void)pause();
    }
    if (stoker_template_channel_report(channel, NULL, NULL, 0, NULL) != STOKER_OK) _exit(5);
    int64_t self = getpid();
    for (;;) {
        uint32_t id;
        int fd;
        stoker_status status = stoker_template_channel_next(channel, STK_SECOND_NS / 10, &id, &fd, NULL);
        int ended;
        while (waitpid(-1, &ended, WNOHANG) > 0)
            if (WIFEXITED(ended) && WEXITSTATUS(ended) != 0)
                (void)fprintf(stderr, "# a worker exited with status %d\n", WEXITSTATUS(ended));
        if (status == STOKER_AGAIN) continue;
        if (status != STOKER_OK) _exit(status == STOKER_END ? 0 : 5);
        pid_t child = fork();
        if (child == 0) {
            stoker_template_channel_close(channel);
            if (strcmp(payload, "stillborn") == 0) _exit(0);
            play_forked_worker(fd, self);
        }
        (void)close(fd);
        if (stoker_template_channel_forked(channel, id, child, NULL) != STOKER_OK) _exit(5);
    }
}

void plane_play(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "worker") == 0) _exit(stoker_worker_run(atoi(argv[3]), NULL) == STOKER_OK ? 0 : 1);
    if (argc >= 4 && strcmp(argv[1], "template") == 0) play_template(atoi(argv[2]), atoi(argv[3]));
}

static stoker_source *process_source(const char *payload)
{
    char self[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(size > 0);
    self[size] = 0;
    const char *argv[] = {self, "template", NULL}, *envp[] = {"PATH=/usr/bin:/bin", NULL};
    stoker_process_spec spec = {argv, envp, "/", payload, strlen(payload) + 1, 0};
    stoker_source *source = NULL;
    assert_int_equal(stoker_source_create_process(&spec, &source, NULL), STOKER_OK);
    return source;
}

stoker_source *plane_process_source(void) { return process_source("good"); }
stoker_source *plane_bad_source(const char *how) { return process_source(how); }

/* ---- the server */

static void print_record(void *user, stoker_log_level level, const char *id, const char *text)
{
    (void)user;
    if (getenv("STK_TEST_LOG")) (void)fprintf(stderr, "# %d %s: %s\n", level, id, text);
}

void plane_start(struct plane_server *server) { plane_start_with(server, stoker_dataserver_run); }

void plane_start_with(struct plane_server *server, plane_run_fn run)
{
    static int count;
    int stop[2], listen_fd;
    (void)snprintf(server->name, sizeof server->name, "stoker-test-%ld-%d", (long)getpid(), ++count);
    (void)snprintf(server->key, sizeof server->key, "%064d", count);
    assert_int_equal(pipe(stop), 0);
    assert_int_equal(stk_unix_listen(server->name, &listen_fd, NULL), STOKER_OK);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        (void)close(stop[1]);
        stoker_dataserver_options options = STOKER_DATASERVER_OPTIONS_INIT;
        options.listen_fd = listen_fd;
        options.stop_fd = stop[0];
        options.key = server->key;
        options.program = "/proc/self/exe";
        options.log_fn = print_record;
        options.log_level = STOKER_LOG_INFO;
        stoker_error err = {0};
        stoker_status status = run(&options, &err);
        if (status != STOKER_OK) (void)fprintf(stderr, "# server: %s\n", err.message);
        exit(status == STOKER_OK ? 0 : 1);
    }
    (void)close(listen_fd);
    (void)close(stop[0]);
    server->stop_fd = stop[1];
    (void)fcntl(server->stop_fd, F_SETFD, FD_CLOEXEC);
}

int plane_wait(struct plane_server *server)
{
    int pidfd = stk_process_open(server->pid), status = 0;
    struct pollfd poll_fd = {pidfd, POLLIN, 0};
    int ended = poll(&poll_fd, 1, 60000);
    if (ended != 1) (void)kill(server->pid, SIGKILL);
    assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    (void)close(pidfd);
    if (server->stop_fd >= 0) (void)close(server->stop_fd);
    server->stop_fd = -1;
    if (ended != 1) fail_msg("the DataServer did not end");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int plane_stop(struct plane_server *server)
{
    (void)close(server->stop_fd);
    server->stop_fd = -1;
    return plane_wait(server);
}

/* ---- ranks */

static struct stk_span span_of(const char *text) { return (struct stk_span){text, strlen(text)}; }

void plane_connect(struct plane_server *server, struct plane_rank *rank)
{
    int fd;
    *rank = (struct plane_rank){0};
    assert_int_equal(stk_unix_connect(server->name, &fd, NULL), STOKER_OK);
    assert_int_equal(stk_channel_create(fd, 77, &rank->channel, NULL), STOKER_OK);
    assert_int_equal(stk_shm_table_create(1, &rank->segments, NULL), STOKER_OK);
}

static void say_hello(struct plane_server *server, struct plane_rank *rank, uint32_t local_rank,
                      uint32_t local_world_size, struct stk_span cpu_mask)
{
    plane_connect(server, rank);
    struct stk_message_hello hello = {.key = span_of(server->key),
                                      .version = span_of(STOKER_VERSION),
                                      .rank = local_rank,
                                      .world_size = local_world_size,
                                      .local_rank = local_rank,
                                      .local_world_size = local_world_size,
                                      .pid = getpid(),
                                      .cpu_mask = cpu_mask};
    PLANE_SEND(rank, STK_MESSAGE_HELLO, hello, &hello);
    plane_expect(rank, STK_MESSAGE_WELCOME);
}

void plane_join(struct plane_server *server, struct plane_rank *rank, uint32_t local_rank, uint32_t local_world_size)
{
    uint8_t mask[STK_CPU_MASK_BYTES_MAX];
    size_t size = stk_process_affinity(mask, sizeof mask);
    say_hello(server, rank, local_rank, local_world_size, (struct stk_span){mask, size});
}

void plane_join_on(struct plane_server *server, struct plane_rank *rank, uint32_t local_rank, uint32_t local_world_size,
                   uint32_t cpu)
{
    uint8_t mask[STK_CPU_MASK_BYTES_MAX] = {0};
    mask[cpu / 8] = (uint8_t)(1u << (cpu % 8));
    say_hello(server, rank, local_rank, local_world_size, (struct stk_span){mask, cpu / 8 + 1});
}

int plane_cpus_of(pid_t pid, uint8_t *mask)
{
    char path[64], line[256];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    memset(mask, 0, STK_CPU_MASK_BYTES_MAX);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "Cpus_allowed_list:", 18) != 0) continue;
        for (char *at = line + 18; *at && *at != '\n';) { /* "0-3,8" */
            unsigned long first = strtoul(at + (*at == ','), &at, 10), last = first;
            if (*at == '-') last = strtoul(at + 1, &at, 10);
            for (; first <= last; first++, count++) mask[first / 8] |= (uint8_t)(1u << (first % 8));
        }
    }
    (void)fclose(file); /* nothing was written */
    return count;
}

void plane_close(struct plane_rank *rank)
{
    stk_channel_destroy(rank->channel);
    stk_shm_table_destroy(rank->segments);
    rank->channel = NULL;
}

void plane_leave(struct plane_rank *rank)
{
    struct stk_writer writer;
    if (stk_channel_begin(rank->channel, STK_MESSAGE_BYE, 0, &writer, NULL) == STOKER_OK)
        (void)stk_channel_end(rank->channel, &writer, NULL, 0, NULL); /* it may be gone already */
    plane_close(rank);
}

static stoker_status receive(struct plane_rank *rank, stoker_error *err)
{
    for (;;) {
        uint64_t deadline_ns = stk_clock_now_ns() + PATIENCE_NS;
        stoker_status status = stk_channel_receive_wait(rank->channel, deadline_ns, &rank->in, err);
        if (status != STOKER_OK) return status;
        if (rank->in.frame.type == STK_MESSAGE_UNMAP) {
            struct stk_message_unmap unmap;
            assert_int_equal(stk_unmap_decode(rank->in.body, &unmap, NULL), STOKER_OK);
            stk_shm_table_remove(rank->segments, unmap.segment_id);
            continue;
        }
        if (rank->in.frame.type != STK_MESSAGE_NOTICE) return STOKER_OK;
        struct stk_message_notice notice;
        assert_int_equal(stk_notice_decode(rank->in.body, &notice, NULL), STOKER_OK);
        (void)snprintf(rank->last_notice, sizeof rank->last_notice, "%.*s: %.*s", (int)notice.id.size,
                       (const char *)notice.id.data, (int)notice.text.size, (const char *)notice.text.data);
        rank->notices++;
    }
}

void plane_expect(struct plane_rank *rank, uint16_t type)
{
    stoker_error err = {0};
    stoker_status status = receive(rank, &err);
    if (status != STOKER_OK) fail_msg("waiting for message %u: %s %s", type, stoker_status_name(status), err.message);
    if (rank->in.frame.type == type) return;
    struct stk_message_failed failed;
    if (rank->in.frame.type == STK_MESSAGE_FAILED && stk_failed_decode(rank->in.body, &failed, NULL) == STOKER_OK)
        fail_msg("batch failed: %.*s", (int)failed.text.size, (const char *)failed.text.data);
    struct stk_message_verdict verdict;
    if (rank->in.frame.type == STK_MESSAGE_LOADER_FAILED &&
        stk_verdict_decode(rank->in.body, &verdict, NULL) == STOKER_OK)
        fail_msg("loader failed: %.*s", (int)verdict.text.size, (const char *)verdict.text.data);
    fail_msg("got message %u, expected %u", rank->in.frame.type, type);
}

void plane_expect_closed(struct plane_rank *rank)
{
    stoker_error err = {0};
    stoker_status status;
    while ((status = receive(rank, &err)) == STOKER_OK) continue;
    if (status == STOKER_AGAIN) fail_msg("the connection is still open");
}

/* ---- loaders */

void plane_open(struct plane_rank *rank, const stoker_source *source, const struct plane_loader *loader)
{
    struct stk_message_loader_open open = {.loader_id = loader->loader_id,
                                           .kind = source->kind,
                                           .order = rank->orders++,
                                           .num_workers = loader->num_workers,
                                           .batch_samples_max = loader->batch_samples_max,
                                           .on_error = loader->on_error,
                                           .retries = loader->retries,
                                           .max_bytes = loader->max_bytes ? loader->max_bytes : STK_MAX_BYTES_DEFAULT,
                                           .stall_limit_ns =
                                               loader->stall_limit_ns ? loader->stall_limit_ns : STK_STALL_LIMIT_NS,
                                           .digest = {source->digest, 32}};
    if (loader->name) open.name = span_of(loader->name);
    if (open.num_workers == 0) open.num_workers = 1;
    if (source->kind == STK_SOURCE_MEDIA) {
        stoker_descriptor descriptor;
        assert_int_equal(stoker_source_describe(source, 0, &descriptor, NULL), STOKER_OK);
        open.sample_bytes = descriptor.sample_bytes;
    }
    open.isolation = loader->isolation;
    open.worker_bytes = loader->worker_bytes;
    open.sample_cpu_ns = loader->sample_cpu_ns;
    int fds[3] = {source->blob_fd}, list_fd = -1;
    uint32_t count = 1;
    if (source->payload_fd >= 0) fds[count++] = source->payload_fd;
    if (loader->quarantine) {
        open.quarantine = span_of(loader->quarantine);
        assert_int_equal(stk_badlist_create(loader->quarantine, &list_fd, NULL), STOKER_OK);
        fds[count++] = list_fd;
    }
    PLANE_SEND_FDS(rank, STK_MESSAGE_LOADER_OPEN, loader_open, &open, fds, count);
    if (list_fd >= 0) assert_int_equal(close(list_fd), 0);
}

void plane_begin(struct plane_rank *rank, uint32_t loader_id, uint32_t generation)
{
    struct stk_message_loader_ref ref = {loader_id, generation};
    PLANE_SEND(rank, STK_MESSAGE_LOADER_BEGIN, loader_ref, &ref);
}

void plane_request_ids(struct plane_rank *rank, uint32_t loader_id, uint32_t generation, uint64_t sequence,
                       const uint64_t *ids, size_t count)
{
    uint8_t bytes[8 * 64];
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++) stk_store_u64(bytes + 8 * i, ids[i]);
    struct stk_message_request request = {loader_id, generation, sequence, {bytes, 8 * count}, {0}, {0}, 0, 0};
    PLANE_SEND(rank, STK_MESSAGE_REQUEST, request, &request);
}

void plane_request(struct plane_rank *rank, uint32_t loader_id, uint32_t generation, uint64_t sequence,
                   const char *payload)
{
    struct stk_message_request request = {loader_id, generation, sequence, {0}, span_of(payload), {0}, 0, 0};
    PLANE_SEND(rank, STK_MESSAGE_REQUEST, request, &request);
}

void plane_request_part(struct plane_rank *rank, uint64_t sequence, uint32_t part, uint32_t parts, const char *payload)
{
    uint8_t numbers[STK_PART_BYTES];
    stk_store_u64(numbers, part);
    stk_store_u64(numbers + 8, parts);
    struct stk_message_request request = {1, 1, sequence, {0}, span_of(payload), {numbers, sizeof numbers}, 0, 0};
    PLANE_SEND(rank, STK_MESSAGE_REQUEST, request, &request);
}

void plane_take(struct plane_rank *rank, uint64_t sequence, struct plane_batch *out)
{
    struct stk_message_ready ready;
    plane_expect(rank, STK_MESSAGE_READY);
    assert_int_equal(stk_ready_decode(rank->in.body, &ready, NULL), STOKER_OK);
    assert_int_equal(ready.sequence, sequence);
    plane_map(rank, &ready, out);
}

void plane_map(struct plane_rank *rank, const struct stk_message_ready *ready, struct plane_batch *out)
{
    out->ready = *ready;
    const struct stk_message_region *region = &out->ready.region;
    if (region->fd_sent) {
        assert_int_equal(rank->in.fd_count, 1);
        int fd = rank->in.fds[0];
        rank->in.fds[0] = -1;
        assert_int_equal(stk_shm_table_add(rank->segments, region->segment_id, region->segment_bytes, fd, NULL),
                         STOKER_OK);
    }
    void *address;
    assert_int_equal(stk_shm_table_resolve(rank->segments, region->segment_id, region->offset, region->size,
                                           &out->mapping, &address, NULL),
                     STOKER_OK);
    out->data = address;
}

void plane_step(struct plane_rank *rank, const struct plane_batch *batch)
{
    struct stk_message_step step = {
        .loader_id = batch->ready.loader_id, .generation = batch->ready.generation, .sequence = batch->ready.sequence};
    PLANE_SEND(rank, STK_MESSAGE_STEP, step, &step);
}

void plane_release(struct plane_rank *rank, struct plane_batch *batch)
{
    uint8_t id[8];
    stk_store_u64(id, batch->ready.region.slab_id);
    struct stk_message_release release = {{id, sizeof id}};
    stk_shm_mapping_unref(batch->mapping);
    batch->mapping = NULL;
    PLANE_SEND(rank, STK_MESSAGE_RELEASE, release, &release);
}

stoker_status plane_take_failure(struct plane_rank *rank, uint64_t sequence, char *text, size_t size)
{
    struct stk_message_failed failed;
    plane_expect(rank, STK_MESSAGE_FAILED);
    assert_int_equal(stk_failed_decode(rank->in.body, &failed, NULL), STOKER_OK);
    assert_int_equal(failed.sequence, sequence);
    (void)snprintf(text, size, "%.*s", (int)failed.text.size, (const char *)failed.text.data);
    return failed.status;
}

/* ---- status */

const char *plane_status(struct plane_rank *rank)
{
    static char text[1 << 16];
    static uint64_t token;
    struct stk_message_status query = {.token = ++token}, answer;
    PLANE_SEND(rank, STK_MESSAGE_STATUS_QUERY, status, &query);
    plane_expect(rank, STK_MESSAGE_STATUS);
    assert_int_equal(stk_status_decode(rank->in.body, &answer, NULL), STOKER_OK);
    assert_int_equal(answer.token, token);
    (void)snprintf(text, sizeof text, "%.*s", (int)answer.text.size, (const char *)answer.text.data);
    return text;
}

long long plane_number(const char *text, const char *name)
{
    char pattern[64];
    (void)snprintf(pattern, sizeof pattern, "\"%s\": ", name);
    const char *at = strstr(text, pattern);
    if (!at) fail_msg("no %s in %s", name, text);
    return strtoll(at + strlen(pattern), NULL, 10);
}

void plane_wait_number(struct plane_rank *rank, const char *name, long long value)
{
    uint64_t deadline_ns = stk_clock_now_ns() + PATIENCE_NS;
    const char *text;
    do {
        text = plane_status(rank);
        if (plane_number(text, name) == value) return;
    } while (stk_clock_now_ns() < deadline_ns);
    fail_msg("%s is not %lld: %s", name, value, text);
}

pid_t plane_wait_worker(struct plane_rank *rank, const char *state, int n)
{
    uint64_t deadline_ns = stk_clock_now_ns() + PATIENCE_NS;
    char pattern[64];
    const char *text;
    (void)snprintf(pattern, sizeof pattern, "\"state\": \"%s\"", state);
    do {
        text = strstr(plane_status(rank), "\"workers\": [");
        int seen = 0;
        for (const char *at = text; (at = strstr(at, "{\"pid\": ")); at++) {
            const char *end = strchr(at, '}'), *found = strstr(at, pattern);
            if (found && found < end && seen++ == n) return (pid_t)strtol(at + 8, NULL, 10);
        }
    } while (stk_clock_now_ns() < deadline_ns);
    fail_msg("no worker is %s: %s", state, text);
    return 0;
}

pid_t plane_wait_begun(struct plane_rank *rank, int n)
{
    uint64_t deadline_ns = stk_clock_now_ns() + PATIENCE_NS;
    pid_t pid = plane_wait_worker(rank, "busy", n);
    char path[64], name[32];
    (void)snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
    do {
        FILE *file = fopen(path, "re");
        if (!file || !fgets(name, sizeof name, file)) fail_msg("worker %ld has ended", (long)pid);
        (void)fclose(file);
    } while (strcmp(name, BEGUN "\n") != 0 && stk_clock_now_ns() < deadline_ns);
    assert_string_equal(name, BEGUN "\n");
    return pid;
}
