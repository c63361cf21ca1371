/* SPDX-License-Identifier: Apache-2.0
 *
 * The training loop over video files in C, without Python: shuffled epochs, a few batches requested ahead, each batch
 * a view of shared memory that is returned when it is dropped.
 *
 *     loader [-p STOKER] [-b BATCH] [-e EPOCHS] [-w WORKERS] CLIP...
 *
 * Prints the samples per second and a checksum over all batches in their order; the checksum of the same files and
 * options is always the same. docs/tutorial/c-loader.md walks through this file.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stoker/stoker.h>

enum { AHEAD = 4 }; /* batches that are being made while one is used */

struct settings {
    const char *program;
    uint64_t batch_size, epochs;
    uint32_t workers;
    const char *const *clips;
    size_t clip_count;
};

struct totals {
    uint64_t samples, checksum;
};

/* Ends the program with what went wrong. */
static void check(stoker_status status, const stoker_error *error)
{
    if (status >= 0) return;
    fprintf(stderr, "loader: %s%s%s (%s)\n", error->context, error->context[0] ? ": " : "", error->message,
            stoker_status_name(status));
    exit(1);
}

static void print_record(void *user, stoker_log_level level, const char *id, const char *text)
{
    (void)user;
    (void)level;
    fprintf(stderr, "loader: %s: %s\n", id, text);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A permutation that depends on the epoch only (xorshift, Fisher and Yates). */
static void shuffle(uint64_t *ids, size_t count, uint64_t epoch)
{
    uint64_t state = UINT64_C(88172645463325252) + epoch;
    for (size_t i = 0; i < count; i++) ids[i] = i;
    for (size_t i = count; i > 1; i--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t other = (size_t)(state % i);
        uint64_t kept = ids[i - 1];
        ids[i - 1] = ids[other];
        ids[other] = kept;
    }
}

/* What stands for a training step: every byte is read once. */
static void train(const stoker_batch *batch, struct totals *totals)
{
    stoker_leaf leaf;
    stoker_error error;
    check(stoker_batch_leaf(batch, 0, &leaf, &error), &error);
    const uint8_t *bytes = leaf.data;
    uint64_t sum = totals->checksum;
    for (size_t i = 0; i < leaf.size; i++) sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    totals->checksum = sum;
    totals->samples += leaf.shape[0];
}

/* Requests the batch that begins at position `at` of the epoch; returns where the next one begins. */
static size_t request(stoker_loader *loader, const struct settings *settings, const uint64_t *ids, size_t at)
{
    stoker_error error;
    size_t left = settings->clip_count - at, count = left < settings->batch_size ? left : (size_t)settings->batch_size;
    stoker_request wanted = {.ids = ids + at, .id_count = count};
    check(stoker_loader_request(loader, &wanted, &error), &error);
    return at + count;
}

static void run_epoch(stoker_loader *loader, const struct settings *settings, const uint64_t *ids,
                      struct totals *totals)
{
    stoker_error error;
    size_t at = 0;
    check(stoker_loader_begin(loader, &error), &error);
    for (int i = 0; i < AHEAD && at < settings->clip_count; i++) at = request(loader, settings, ids, at);
    for (;;) {
        stoker_batch *batch;
        stoker_status status = stoker_loader_next(loader, UINT64_MAX, &batch, &error);
        check(status, &error);
        if (status == STOKER_END) return;
        if (at < settings->clip_count) at = request(loader, settings, ids, at);
        train(batch, totals);
        stoker_batch_unref(batch);
    }
}

static void run(const struct settings *settings)
{
    stoker_error error;
    stoker_source *source;
    stoker_client *client;
    stoker_loader *loader;
    struct totals totals = {0, UINT64_C(14695981039346656037)};
    uint64_t *ids = calloc(settings->clip_count, sizeof *ids);
    if (!ids) exit(1);

    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 8;
    spec.width = spec.height = 112;
    stoker_path_list list = {.paths = settings->clips, .count = settings->clip_count};
    check(stoker_source_create_video(&list, &spec, &source, &error), &error);

    stoker_client_options client_options = STOKER_CLIENT_OPTIONS_INIT;
    client_options.program = settings->program;
    client_options.log_fn = print_record;
    client_options.log_level = STOKER_LOG_WARN;
    check(stoker_client_open(&client_options, &client, &error), &error);

    stoker_loader_options loader_options = STOKER_LOADER_OPTIONS_INIT;
    loader_options.num_workers = settings->workers;
    loader_options.batch_samples_max = (uint32_t)settings->batch_size;
    check(stoker_loader_open(client, source, &loader_options, &loader, &error), &error);

    double began = seconds_now();
    for (uint64_t epoch = 0; epoch < settings->epochs; epoch++) {
        shuffle(ids, settings->clip_count, epoch);
        run_epoch(loader, settings, ids, &totals);
    }
    double took = seconds_now() - began;
    printf("%" PRIu64 " samples, %.1f samples/s, checksum %016" PRIx64 "\n", totals.samples,
           (double)totals.samples / took, totals.checksum);
    stoker_loader_close(loader);
    stoker_client_close(client);
    stoker_source_close(source);
    free(ids);
}

int main(int argc, char **argv)
{
    struct settings settings = {.program = "stoker", .batch_size = 4, .epochs = 2, .workers = 2};
    int option;
    while ((option = getopt(argc, argv, "p:b:e:w:")) != -1) {
        switch (option) {
        case 'p': settings.program = optarg; break;
        case 'b': settings.batch_size = strtoull(optarg, NULL, 10); break;
        case 'e': settings.epochs = strtoull(optarg, NULL, 10); break;
        case 'w': settings.workers = (uint32_t)strtoul(optarg, NULL, 10); break;
        default: return 2;
        }
    }
    settings.clips = (const char *const *)(argv + optind);
    settings.clip_count = (size_t)(argc - optind);
    if (settings.clip_count == 0 || settings.batch_size == 0) {
        fprintf(stderr, "usage: loader [-p STOKER] [-b BATCH] [-e EPOCHS] [-w WORKERS] CLIP...\n");
        return 2;
    }
    run(&settings);
    return 0;
}
