/* SPDX-License-Identifier: Apache-2.0
 *
 * See cell.h.
 */
#include "sim/cell.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "sched/journal.h"
#include "sim/random.h"
#include "sim/run.h"
#include "sim/stats.h"

#define JOURNAL_BYTES_MAX (256u << 20)

/* One block serves all runs; it grows to the largest. The program has one thread. */
static struct {
    void *block;
    size_t size;
    uint64_t *waits, *ready;
    size_t wait_cap, ready_cap;
} shared;

void sim_cell_free(void)
{
    free(shared.block);
    free(shared.waits);
    free(shared.ready);
    shared.block = NULL;
    shared.waits = shared.ready = NULL;
    shared.size = shared.wait_cap = shared.ready_cap = 0;
}

static stoker_status reserve(void **block, size_t *size, size_t needed, stoker_error *err)
{
    if (*size >= needed) return STOKER_OK;
    free(*block);
    *size = 0;
    *block = aligned_alloc(64, (needed + 63) / 64 * 64);
    if (!*block) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a run: %zu bytes", needed);
    *size = needed;
    return STOKER_OK;
}

static stoker_status prepare(const struct sim_config *config, uint32_t seeds, stoker_error *err)
{
    size_t waits = (size_t)config->steps * seeds * sizeof *shared.waits;
    STK_TRY(reserve(&shared.block, &shared.size, sim_run_bytes(config), err));
    void *arrays[2] = {shared.waits, shared.ready};
    stoker_status status = reserve(&arrays[0], &shared.wait_cap, waits, err);
    if (status == STOKER_OK) status = reserve(&arrays[1], &shared.ready_cap, waits * config->machines.ranks, err);
    shared.waits = arrays[0];
    shared.ready = arrays[1];
    return status;
}

static void add(struct sim_cell *out, uint32_t seed, struct sim_result *result)
{
    double steps = (double)result->steps;
    out->rate[seed] = (double)result->samples * 1e9 / (double)result->elapsed_ns;
    out->miss[seed] = (double)result->misses / steps;
    out->share[seed] = (double)result->ideal_ns / (double)result->elapsed_ns;
    out->wait_mean_s += (double)result->wait_sum_ns / 1e9 / steps;
    out->cross_host_gb += (double)result->cross_host_bytes / 1e9 * 100 / steps;
    out->cross_server_gb += (double)result->cross_server_bytes / 1e9 * 100 / steps;
    out->cpu_s_sample += (double)result->cpu_ns / 1e9 / (double)result->samples;
    out->copies += (double)result->copies;
    out->remote_share += result->decisions > 0 ? (double)result->remote / (double)result->decisions : 0;
    out->events += (double)result->events;
    out->digest = sim_bits(out->digest, SIM_STREAM_LOSS, result->digest);
}

stoker_status sim_cell_run(const struct sim_config *config, const struct sim_seeds *seeds, struct sim_cell *out,
                           stoker_error *err)
{
    STK_TRY(sim_config_check(config, err));
    *out = (struct sim_cell){.count = seeds->count};
    STK_TRY(prepare(config, seeds->count, err));
    size_t steps = 0;
    for (uint32_t seed = 0; seed < seeds->count; seed++) {
        struct sim_result result = {.waits_ns = shared.waits + steps,
                                    .ready_ns = shared.ready + steps * config->machines.ranks};
        stoker_status status = sim_run(config, seeds->first + seed, shared.block, shared.size, &result, err);
        if (status < 0) {
            stk_error_context(err, "%s, %s, seed %llu", config->workload.name, config->system.name,
                              (unsigned long long)(seeds->first + seed));
            return status;
        }
        add(out, seed, &result);
        steps += result.steps;
        sim_sort(result.waits_ns, result.steps);
        out->p95_s[seed] = (double)sim_quantile(result.waits_ns, result.steps, 0.95) / 1e9;
    }
    double count = (double)seeds->count;
    out->wait_mean_s /= count;
    out->cross_host_gb /= count;
    out->cross_server_gb /= count;
    out->cpu_s_sample /= count;
    out->copies /= count;
    out->remote_share /= count;
    out->events /= count;
    out->rate_geomean = sim_geomean(out->rate, seeds->count);
    out->share_geomean = sim_geomean(out->share, seeds->count);
    out->miss_mean = sim_mean(out->miss, seeds->count);
    sim_sort(shared.waits, steps);
    sim_sort(shared.ready, steps * config->machines.ranks);
    out->wait_p50_s = (double)sim_quantile(shared.waits, steps, 0.5) / 1e9;
    out->wait_p95_s = (double)sim_quantile(shared.waits, steps, 0.95) / 1e9;
    out->ready_p95_s = (double)sim_quantile(shared.ready, steps * config->machines.ranks, 0.95) / 1e9;
    return STOKER_OK;
}

stoker_status sim_cell_record(const struct sim_config *config, uint64_t seed, const char *path, stoker_error *err)
{
    if (config->system.policy != SIM_ENGINE)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "system '%s' has no engine to record", config->system.name);
    STK_TRY(prepare(config, 1, err));
    struct sim_journal journal = {.bytes = malloc(JOURNAL_BYTES_MAX), .cap = JOURNAL_BYTES_MAX};
    if (!journal.bytes)
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a journal of %u bytes", JOURNAL_BYTES_MAX);
    struct sim_result result = {.waits_ns = shared.waits, .ready_ns = shared.ready, .journal = &journal};
    stoker_status status = sim_run(config, seed, shared.block, shared.size, &result, err);
    if (status == STOKER_OK && !journal.full)
        journal.size += stk_journal_write_end(journal.bytes + journal.size, false); /* a step has left room for it */
    FILE *file = status == STOKER_OK ? fopen(path, "wb") : NULL;
    if (file) {
        bool written = fwrite(journal.bytes, 1, journal.size, file) == journal.size;
        if (fclose(file) != 0 || !written) status = stk_fail(err, STOKER_ERR_IO, "cannot write '%s'", path);
    } else if (status == STOKER_OK) {
        status = stk_fail(err, STOKER_ERR_IO, "cannot open '%s' for writing", path);
    }
    free(journal.bytes);
    return status;
}
