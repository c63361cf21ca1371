/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker-sim replay JOURNAL`: the events of a recorded engine go through the shipped one again, and must give the
 * actions that were recorded. Works on journals of the Coordinator and on those of `stoker-sim run --journal`.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "sched/journal.h"
#include "sim/json.h"
#include "sim/options.h"

#define FILE_BYTES_MAX (UINT64_C(4) << 30)

struct replay {
    uint8_t *data;
    size_t size;
    void *block;
    struct stk_engine *engine;
    struct stk_event *events;
    struct stk_action *actions;
    size_t action_cap;
    struct stk_engine_limits limits;
    struct stk_journal_reader reader;
    uint64_t steps, event_count, action_count, refused;
    uint64_t placed, canceled, moved, given_up; /* actions by type */
    bool differs;
    uint64_t differs_at_ns, was_digest, is_digest;
};

static stoker_status read_file(const char *path, struct replay *replay, stoker_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return stk_fail_os(err, errno == ENOENT ? STOKER_ERR_NOT_FOUND : STOKER_ERR_IO, errno, "cannot open '%s'",
                           path);
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    stoker_status status = STOKER_OK;
    if (size < 0 || (uint64_t)size > FILE_BYTES_MAX || fseek(file, 0, SEEK_SET) != 0)
        status = stk_fail(err, STOKER_ERR_LIMIT, "'%s' is no file of at most %llu bytes", path,
                          (unsigned long long)FILE_BYTES_MAX);
    if (status == STOKER_OK && !(replay->data = malloc((size_t)size + 1)))
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for '%s': %ld bytes", path, size);
    if (status == STOKER_OK) replay->size = fread(replay->data, 1, (size_t)size, file);
    if (status == STOKER_OK && replay->size != (size_t)size)
        status = stk_fail(err, STOKER_ERR_IO, "'%s' has %ld bytes, %zu could be read", path, size, replay->size);
    fclose(file);
    return status;
}

static stoker_status make_engine(struct replay *replay, stoker_error *err)
{
    struct stk_engine_options options;
    STK_TRY(stk_journal_open(&replay->reader, replay->data, replay->size, &replay->limits, &options, err));
    size_t bytes = stk_engine_bytes(&replay->limits);
    replay->action_cap = stk_engine_actions_max(&replay->limits, STK_JOURNAL_EVENTS_MAX);
    replay->block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    replay->events = calloc(STK_JOURNAL_EVENTS_MAX, sizeof *replay->events);
    replay->actions = calloc(replay->action_cap, sizeof *replay->actions);
    if (!replay->block || !replay->events || !replay->actions)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an engine of %zu bytes", bytes);
    replay->engine = stk_engine_init(replay->block, bytes, &replay->limits, &options);
    return STOKER_OK;
}

static void count_actions(struct replay *replay, size_t count)
{
    replay->action_count += count;
    for (size_t i = 0; i < count; i++) {
        replay->placed += replay->actions[i].type == STK_ACTION_PLACE;
        replay->moved += replay->actions[i].type == STK_ACTION_DEADLINE;
        replay->canceled += replay->actions[i].type == STK_ACTION_CANCEL;
        replay->given_up += replay->actions[i].type == STK_ACTION_GIVE_UP;
    }
}

static stoker_status replay_steps(struct replay *replay, stoker_error *err)
{
    for (;;) {
        struct stk_journal_step step;
        stoker_status status = stk_journal_next(&replay->reader, replay->events, STK_JOURNAL_EVENTS_MAX, &step, err);
        if (status != STOKER_OK) return status == STOKER_END ? STOKER_OK : status;
        size_t count = 0, applied = 0;
        /* A refused event was recorded as the last of its step: it is refused again. */
        status = stk_engine_step(replay->engine, step.now_ns, replay->events, step.event_count, replay->actions,
                                 replay->action_cap, &count, &applied, NULL);
        replay->refused += status < 0;
        replay->steps++;
        replay->event_count += step.event_count;
        count_actions(replay, count);
        uint64_t digest = stk_journal_digest(replay->actions, count);
        if (count == step.action_count && digest == step.digest) continue;
        replay->differs = true;
        replay->differs_at_ns = step.now_ns;
        replay->was_digest = step.digest;
        replay->is_digest = digest;
        return STOKER_OK;
    }
}

/* A record without its end is good as far as it goes, but it is not all that happened. Whether its writer died or
 * somebody cut the file is not known here. */
static bool is_cut(const struct replay *replay) { return !replay->differs && !replay->reader.closed; }

static const char *end_of(const struct replay *replay)
{
    const struct stk_journal_reader *reader = &replay->reader;
    if (replay->differs) return "not-reached";
    if (reader->closed) return reader->limit_reached ? "limit" : "closed";
    return reader->whole_bytes < reader->size ? "inside-record" : "no-mark";
}

static void tell_cut(const char *path, const struct replay *replay)
{
    const struct stk_journal_reader *reader = &replay->reader;
    bool inside = reader->whole_bytes < reader->size;
    fprintf(
        stderr,
        "stoker-sim replay: '%s' ends %s at byte %zu, after %llu steps with %llu events%s: its writer was killed, or "
        "the file was cut\n",
        path, inside ? "in the middle of a record" : "without an end mark", reader->size,
        (unsigned long long)replay->steps, (unsigned long long)replay->event_count, inside ? " in whole records" : "");
}

static void print_json(const struct replay *replay)
{
    struct sim_json *json = sim_json_object();
    sim_json_text(json, "schema", "stoker.sim.replay/1");
    sim_json_bool(json, "same", !replay->differs);
    sim_json_integer(json, "steps", (int64_t)replay->steps);
    sim_json_integer(json, "events", (int64_t)replay->event_count);
    sim_json_integer(json, "refused", (int64_t)replay->refused);
    sim_json_integer(json, "actions", (int64_t)replay->action_count);
    sim_json_integer(json, "placed", (int64_t)replay->placed);
    sim_json_integer(json, "deadlines", (int64_t)replay->moved);
    sim_json_integer(json, "canceled", (int64_t)replay->canceled);
    sim_json_integer(json, "given_up", (int64_t)replay->given_up);
    sim_json_bool(json, "limit_reached", replay->reader.limit_reached);
    sim_json_text(json, "end", end_of(replay));
    sim_json_integer(json, "bytes", (int64_t)replay->reader.size);
    sim_json_integer(json, "whole_bytes", (int64_t)replay->reader.whole_bytes);
    sim_json_print(json, stdout);
    sim_json_free(json);
}

static void print_text(const struct replay *replay)
{
    printf(
        "%llu steps, %llu events (%llu refused), %llu actions: %llu placed, %llu deadlines, %llu cancelled, %llu given "
        "up\n",
        (unsigned long long)replay->steps, (unsigned long long)replay->event_count, (unsigned long long)replay->refused,
        (unsigned long long)replay->action_count, (unsigned long long)replay->placed, (unsigned long long)replay->moved,
        (unsigned long long)replay->canceled, (unsigned long long)replay->given_up);
    if (replay->reader.limit_reached) puts("the record ends at its limit of bytes");
    if (replay->differs)
        printf("step %llu at %.9f s gives other actions: digest %016llx, recorded %016llx\n",
               (unsigned long long)replay->steps, (double)replay->differs_at_ns / 1e9,
               (unsigned long long)replay->is_digest, (unsigned long long)replay->was_digest);
    else
        puts(is_cut(replay) ? "same actions, as far as the record goes" : "same actions");
}

int sim_command_replay(const struct sim_options *options)
{
    if (options->argument_count != 1) return sim_usage_error("replay needs one journal");
    struct replay replay = {0};
    stoker_error err = {0};
    stoker_status status = read_file(options->arguments[0], &replay, &err);
    if (status == STOKER_OK) status = make_engine(&replay, &err);
    if (status == STOKER_OK) status = replay_steps(&replay, &err);
    int result = SIM_EXIT_DONE;
    if (status < 0) {
        stk_error_context(&err, "'%s'", options->arguments[0]);
        result = sim_report_failure("replay", &err);
    } else {
        if (options->json)
            print_json(&replay);
        else
            print_text(&replay);
        if (is_cut(&replay)) tell_cut(options->arguments[0], &replay);
        result = replay.differs ? SIM_EXIT_NO : is_cut(&replay) ? SIM_EXIT_DATA : SIM_EXIT_DONE;
    }
    free(replay.data);
    free(replay.block);
    free(replay.events);
    free(replay.actions);
    return result;
}
