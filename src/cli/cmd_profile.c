/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker profile`: decodes a sample of the user's videos in the form of the training and writes what each one cost,
 * one JSON object a line, from which a run's cost model starts; and says how well such costs are predicted.
 *
 * The first decode of the process is not counted: it loads the codec's code and touches fresh memory.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <stoker/profile.h>
#include <stoker/stoker.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/lists.h"
#include "cli/options.h"
#include "cli/output.h"

enum { PATH_BYTES_MAX = 4096, DEPTH_MAX = 32, SIDE_MAX = 65536, REPEAT_MAX = 100 };

struct order {
    stoker_video_spec spec;
    uint32_t samples, repeat;
    uint64_t seed;
    bool json;
};

/* ---- arguments ---- */

static bool read_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    if (*text < '0' || *text > '9') return false;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end || value > max) return false;
    *out = value;
    return true;
}

static bool read_size(const char *text, uint32_t *out_width, uint32_t *out_height)
{
    char first[16];
    uint64_t width, height;
    const char *x = strchr(text, 'x');
    if (!x || (size_t)(x - text) >= sizeof first) return false;
    memcpy(first, text, (size_t)(x - text));
    first[x - text] = 0;
    if (!read_number(first, SIDE_MAX, &width) || !read_number(x + 1, SIDE_MAX, &height) || !width || !height)
        return false;
    *out_width = (uint32_t)width;
    *out_height = (uint32_t)height;
    return true;
}

/* Files of a folder and of those in it, in the order of their names, so that a seed means the same everywhere. */
static stoker_status add_folder(const char *folder, int depth, struct cli_texts *out, stoker_error *err)
{
    struct dirent **entries = NULL;
    char path[PATH_BYTES_MAX];
    stoker_status status = STOKER_OK;
    if (depth > DEPTH_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "'%s' is more than %d folders deep", folder, DEPTH_MAX);
    int count = scandir(folder, &entries, NULL, alphasort);
    if (count < 0) return stk_fail(err, STOKER_ERR_IO, "cannot read the folder '%s'", folder);
    for (int i = 0; i < count; i++) {
        struct stat facts;
        const char *name = entries[i]->d_name;
        int size = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (status == STOKER_OK && name[0] != '.' && size < (int)sizeof path && stat(path, &facts) == 0) {
            if (S_ISDIR(facts.st_mode)) status = add_folder(path, depth + 1, out, err);
            if (S_ISREG(facts.st_mode)) status = cli_texts_add(out, path, (size_t)size, err);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static stoker_status list_sources(char **arguments, int count, struct cli_texts *out, stoker_error *err)
{
    for (int i = 0; i < count; i++) {
        struct stat facts;
        if (stat(arguments[i], &facts) == 0 && S_ISDIR(facts.st_mode))
            STK_TRY(add_folder(arguments[i], 0, out, err));
        else if (cli_is_list(arguments[i]))
            STK_TRY(cli_list_read(arguments[i], out, err));
        else
            STK_TRY(cli_texts_add(out, arguments[i], strlen(arguments[i]), err));
    }
    return STOKER_OK;
}

/* A shuffle that is the same for a seed on every machine. */
static void shuffle(struct cli_texts *texts, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = texts->count; i > 1; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t other = (size_t)(state % i);
        char *text = texts->texts[i - 1];
        texts->texts[i - 1] = texts->texts[other];
        texts->texts[other] = text;
    }
}

/* ---- measuring ---- */

static void print_row(const char *path, const stoker_video_spec *spec, const stoker_cost_row *row)
{
    struct cli_json *json = cli_json_begin(), *form = cli_json_begin();
    cli_json_text(json, "schema", "stoker.cost/1");
    cli_json_text(json, "path", path);
    cli_json_text(json, "kind", stoker_cost_kind_name(row->kind));
    cli_json_integer(form, "frames", spec->frames);
    cli_json_integer(form, "width", spec->width);
    cli_json_integer(form, "height", spec->height);
    cli_json_object(json, "form", form);
    cli_json_integer(json, "samples", (int64_t)row->samples);
    cli_json_integer(json, "pixels_in", (int64_t)row->pixels_in);
    cli_json_integer(json, "bytes_in", (int64_t)row->bytes_in);
    cli_json_integer(json, "pixels_out", (int64_t)row->pixels_out);
    cli_json_integer(json, "cpu_ns", (int64_t)row->cpu_ns);
    cli_json_integer(json, "wall_ns", (int64_t)row->wall_ns);
    cli_json_integer(json, "input_bytes", (int64_t)row->input_bytes);
    cli_json_integer(json, "output_bytes", (int64_t)row->output_bytes);
    cli_json_text(json, "locality", "local");
    cli_json_end(json);
}

/* The decode of the least CPU time: what else runs on the machine only adds. */
static stoker_status measure(const struct order *order, const char *path, void *dst, stoker_cost_row *out,
                             stoker_error *err)
{
    for (uint32_t i = 0; i < order->repeat; i++) {
        stoker_cost_row row;
        STK_TRY(stoker_profile_video(path, &order->spec, dst, &row, err));
        if (i == 0 || row.cpu_ns < out->cpu_ns) *out = row;
    }
    return STOKER_OK;
}

static void print_summary(const struct order *order, const stoker_cost_row *rows, size_t count, size_t bad)
{
    stoker_cost_judgement judgement;
    size_t taught = count / 2;
    bool judged = count >= 20 && stoker_profile_judge(rows, count, taught, 0, &judgement, NULL) == STOKER_OK;
    fprintf(stderr, "%zu samples measured, %zu could not be read\n", count, bad);
    if (judged)
        fprintf(stderr,
                "taught %zu of them, the others are predicted within %.0f %% (median), %.0f %% (p95); by the built-in "
                "figures within %.0f %%, %.0f %%\n",
                taught, 100 * judgement.median, 100 * judgement.p95, 100 * judgement.prior_median,
                100 * judgement.prior_p95);
    if (!order->json) return;
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.profile/1");
    cli_json_integer(json, "samples", (int64_t)count);
    cli_json_integer(json, "unreadable", (int64_t)bad);
    if (judged) {
        cli_json_integer(json, "taught", (int64_t)taught);
        cli_json_real(json, "error_median", judgement.median);
        cli_json_real(json, "error_p95", judgement.p95);
        cli_json_real(json, "prior_error_median", judgement.prior_median);
        cli_json_real(json, "prior_error_p95", judgement.prior_p95);
    }
    cli_json_end(json);
}

static stoker_status run(const struct order *order, struct cli_texts *paths, size_t *out_count, stoker_error *err)
{
    size_t bytes = stoker_video_sample_bytes(&order->spec), bad = 0, count = 0;
    void *dst = bytes ? calloc(1, bytes) : NULL;
    stoker_cost_row *rows = calloc(order->samples, sizeof *rows), first;
    if (!dst || !rows) {
        free(dst);
        free(rows);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a sample of %zu bytes", bytes);
    }
    shuffle(paths, order->seed);
    if (paths->count > 0) (void)stoker_profile_video(paths->texts[0], &order->spec, dst, &first, NULL); /* warms up */
    for (size_t i = 0; i < paths->count && count < order->samples; i++) {
        stoker_error why = {0};
        if (measure(order, paths->texts[i], dst, &rows[count], &why) < 0) {
            bool named = strstr(why.message, paths->texts[i]) != NULL; /* a missing file names itself */
            fprintf(stderr, "stoker profile: %s%s%s\n", named ? "" : paths->texts[i], named ? "" : ": ", why.message);
            bad++;
            continue;
        }
        print_row(paths->texts[i], &order->spec, &rows[count++]);
    }
    print_summary(order, rows, count, bad);
    free(dst);
    free(rows);
    *out_count = count;
    return STOKER_OK;
}

int cmd_profile(int argc, char **argv)
{
    const char *frames = "16", *size = "224x224", *samples = "200", *repeat = "1", *seed = "0";
    struct order order = {.json = false};
    uint64_t number = 0;
    int count = 0;
    const struct cli_option options[] = {
        {'n', "frames", "N", "frames of a sample (16)", NULL, &frames},
        {'s', "size", "WxH", "their size (224x224)", NULL, &size},
        {0, "samples", "N", "files that are measured, chosen at random (200, at most 4096)", NULL, &samples},
        {0, "repeat", "N", "decodes of each, of which the fastest counts (1)", NULL, &repeat},
        {0, "seed", "N", "of the choice (0)", NULL, &seed},
        {0, "json", NULL, "the summary as a last JSON object, too", &order.json, NULL},
    };
    const struct cli_usage usage = {
        "profile", "[--frames N] [--size WxH] [--samples N] [--repeat N] [--seed N] [--json] SOURCE...",
        "Decode some of the videos in the form of the training and print what each cost, one JSON object a line. A\n"
        "SOURCE is a folder, a file or a list (.txt, .lst, .list or .jsonl). Run it where the workers will run.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count < 1) return cli_usage_error(&usage, "at least one SOURCE is needed");
    order.spec = (stoker_video_spec)STOKER_VIDEO_SPEC_INIT;
    if (!read_number(frames, SIDE_MAX, &number) || number == 0)
        return cli_usage_error(&usage, "--frames %s, expected 1 to %d", frames, SIDE_MAX);
    order.spec.frames = (uint32_t)number;
    if (!read_size(size, &order.spec.width, &order.spec.height))
        return cli_usage_error(&usage, "--size %s, expected WIDTHxHEIGHT, each 1 to %d", size, SIDE_MAX);
    if (!read_number(samples, STOKER_COST_ROWS_MAX, &number) || number == 0)
        return cli_usage_error(&usage, "--samples %s, expected 1 to %d", samples, STOKER_COST_ROWS_MAX);
    order.samples = (uint32_t)number;
    if (!read_number(repeat, REPEAT_MAX, &number) || number == 0)
        return cli_usage_error(&usage, "--repeat %s, expected 1 to %d", repeat, REPEAT_MAX);
    order.repeat = (uint32_t)number;
    if (!read_number(seed, UINT64_MAX, &order.seed)) return cli_usage_error(&usage, "--seed %s is no number", seed);
    cli_interrupt_removes(NULL);

    struct cli_texts paths = {NULL, 0, 0};
    stoker_error err = {0};
    size_t measured = 0;
    stoker_status status = list_sources(argv + 1, count, &paths, &err);
    if (status >= 0) status = run(&order, &paths, &measured, &err);
    cli_texts_free(&paths);
    if (status < 0) return cli_fail("profile", &err);
    return cli_finish("profile", measured > 0 ? CLI_EXIT_DONE : CLI_EXIT_DATA);
}
