/* SPDX-License-Identifier: Apache-2.0
 *
 * See options.h.
 */
#include "sim/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"

void sim_help(void *file)
{
    fputs("usage: stoker-sim run SCENARIO.json [--seed N] [--seeds N] [--journal FILE] [--json]\n"
          "       stoker-sim compare SCENARIO.json... [--seed N] [--seeds N] [--json]\n"
          "       stoker-sim compare --study published [--part NAMES] [--set NAME=VALUE]... [--seed N] [--seeds N] "
          "[--json]\n"
          "       stoker-sim constants [--json]\n"
          "       stoker-sim fit [--set NAME=VALUE]... [--seed N] [--seeds N]\n"
          "       stoker-sim replay JOURNAL [--json]\n"
          "\n"
          "Feeds simulated ranks in virtual time by the shipped engine, and by others. Results are simulated.\n"
          "\n"
          "options:\n"
          "  --seed N          the first seed (default: run, compare, fit 1; compare --study 1001)\n"
          "  --seeds N         how many, 1 to 64 (default: run 1; compare, fit 20)\n"
          "  --study NAME      published: the published study, in two worlds\n"
          "  --part NAMES      with --study, parts of it, separated by commas (default: all but sensitivity):\n"
          "                    reproduction  all workloads in the world that was fitted to the published figures\n"
          "                    fair          all workloads in the fair world\n"
          "                    sweep         0 to 64 remote servers\n"
          "                    traffic       bytes across hosts, with and without a budget\n"
          "                    ladder        the published system, part by part\n"
          "                    batches       sizes of batches and micro-batches\n"
          "                    data          data alone, without the model\n"
          "                    pressure      dearer samples, up to the share of all cores that is needed\n"
          "                    scale         1,024 ranks, 4,096 servers\n"
          "                    sticky        by the share of stalls that meet every try\n"
          "                    sensitivity   other values of the constants; takes long\n"
          "  --set NAME=VALUE  with --study, another value of a constant\n"
          "  --journal FILE    record the events of the first system with an engine, first seed\n"
          "  --json            one JSON object on stdout\n"
          "  -h, --help        print this text\n",
          file);
}

bool sim_same_file(const char *path, const char *other)
{
    struct stat one, two;
    return stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

int sim_usage_error(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("stoker-sim: ", stderr);
    vfprintf(stderr, format, values);
    va_end(values);
    fputs("\nhint: stoker-sim --help\n", stderr);
    return SIM_EXIT_USAGE;
}

int sim_report_failure(const char *command, const stoker_error *err)
{
    char text[1024];
    stk_error_text(err, text, sizeof text);
    fprintf(stderr, "stoker-sim %s: %s\n", command, text);
    switch (err->status) {
    case STOKER_ERR_INVALID_ARGUMENT:
    case STOKER_ERR_NOT_FOUND:
    case STOKER_ERR_CORRUPT:
    case STOKER_ERR_UNSUPPORTED:
    case STOKER_ERR_MISMATCH: return SIM_EXIT_DATA;
    case STOKER_ERR_INTERNAL: return SIM_EXIT_BUG;
    default: return SIM_EXIT_MACHINE;
    }
}

static bool number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    if (*text < '0' || *text > '9') return false;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != 0 || value < least || value > most) return false;
    *out = value;
    return true;
}

static int set_constant(struct sim_options *out, const char *text)
{
    const char *equals = strchr(text, '=');
    char name[SIM_NAME_BYTES];
    if (!equals || (size_t)(equals - text) >= sizeof name) return sim_usage_error("--set '%s' is no NAME=VALUE", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    double *constant = sim_constant_named(&out->constants, name);
    if (!constant) return sim_usage_error("no constant is called '%s'; stoker-sim constants lists them", name);
    char *end = NULL;
    errno = 0;
    double value = strtod(equals + 1, &end);
    if (errno != 0 || end == equals + 1 || *end != 0 || !(value >= 0 && value <= 1e9))
        return sim_usage_error("--set %s: '%s' is no number from 0 to 1e9", name, equals + 1);
    *constant = value;
    out->changed++;
    return SIM_EXIT_DONE;
}

/* Options that take a value. */
static int apply(struct sim_options *out, const char *name, const char *value)
{
    uint64_t count = 0;
    if (strcmp(name, "--seed") == 0) {
        if (!number(value, 0, UINT64_C(1) << 62, &out->seeds.first))
            return sim_usage_error("--seed '%s' is no number from 0 to 2^62", value);
        out->seeds_given = true;
    } else if (strcmp(name, "--seeds") == 0) {
        if (!number(value, 1, SIM_SEEDS_MAX, &count))
            return sim_usage_error("--seeds '%s' is no number from 1 to %u", value, SIM_SEEDS_MAX);
        out->seeds.count = (uint32_t)count;
    } else if (strcmp(name, "--study") == 0) {
        out->study = value;
    } else if (strcmp(name, "--journal") == 0) {
        out->journal = value;
    } else if (strcmp(name, "--part") == 0) {
        out->parts = value;
    } else if (strcmp(name, "--set") == 0) {
        return set_constant(out, value);
    } else {
        return sim_usage_error("option '%s' is not known", name);
    }
    return SIM_EXIT_DONE;
}

int sim_options_parse(int argc, char **argv, struct sim_options *out, bool *out_help)
{
    sim_constants_default(&out->constants);
    *out_help = false;
    out->arguments = argv;
    bool options_end = false;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        if (options_end || word[0] != '-' || word[1] == 0) {
            out->arguments[out->argument_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            options_end = true;
        } else if (strcmp(word, "--json") == 0) {
            out->json = true;
        } else if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
            *out_help = true;
            return SIM_EXIT_DONE;
        } else {
            char *equals = strchr(word, '=');
            const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
            if (!value) return sim_usage_error("option '%s' needs a value", word);
            if (equals) *equals = 0;
            int status = apply(out, word, value);
            if (status != SIM_EXIT_DONE) return status;
        }
    }
    return SIM_EXIT_DONE;
}
