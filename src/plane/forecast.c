/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_internal.h. What requests will cost, as the DataServer tells it to the engine and to dispatch, and what
 * they did cost, as workers tell it to the model (plane/estimate). Costs change the order of work, never what is made.
 */
#include "plane/server_internal.h"

#include "plane/estimate.h"

static struct stk_estimate_of of_lane(const struct stk_server *server, const struct stk_lane *lane)
{
    const bool native = lane->kind != STK_SOURCE_PROCESS;
    return (struct stk_estimate_of){lane->group, lane->cost_class,
                                    native ? server->sources[lane->source].source : NULL};
}

static struct stk_cost_features of_payload(const struct stk_request *request)
{
    return (struct stk_cost_features){.samples = request->payload_samples ? request->payload_samples : 1,
                                      .hint_ns = request->estimate_ns};
}

/* A row teaches its own kind. Where the lane's kind is that of files whose codec is not known, or of whatever a Python
 * dataset makes, the row teaches it too, by what is known of a sample beforehand there. */
static void teach_row(struct stk_lane *lane, const uint8_t *row)
{
    uint64_t n[STK_COST_ROW_BYTES / 8];
    for (size_t i = 0; i < STK_COST_ROW_BYTES / 8; i++) n[i] = stk_load_u64(row + 8 * i);
    struct stk_estimate_of of = {lane->group, n[0] < STK_COST_CLASSES ? (uint32_t)n[0] : STK_COST_OTHER, NULL};
    struct stk_cost_result result = {{n[1], n[2], n[3], n[4], n[5]}, n[6], n[7], n[9], 0};
    stk_estimate_learn(lane->server->estimate, &of, &result);
    if (of.class_id == lane->cost_class) return;
    of.class_id = lane->cost_class;
    result.features.pixels_in = 0;
    result.features.bytes_in = n[8];
    if (lane->cost_class == STK_COST_OTHER)
        result.features = (struct stk_cost_features){.samples = n[1], .hint_ns = n[5]};
    stk_estimate_learn(lane->server->estimate, &of, &result);
}

void stk_forecast_lane(struct stk_lane *lane, struct stk_span profile)
{
    lane->cost_class = stk_estimate_class(lane->server->sources[lane->source].source);
    const struct stk_estimate_of of = {lane->group, lane->cost_class, NULL};
    uint32_t learned;
    (void)stk_estimate_error(lane->server->estimate, &of, &learned);
    if (learned > 0) return; /* another rank of the loader brought the same */
    for (size_t at = 0; at < profile.size; at += STK_COST_ROW_BYTES)
        teach_row(lane, (const uint8_t *)profile.data + at);
}

static void predict(struct stk_server *server, const struct stk_lane *lane, const struct stk_request *request,
                    struct stk_cost *out, const uint32_t **out_order)
{
    const struct stk_estimate_of of = of_lane(server, lane);
    if (of.source) {
        stk_estimate_ids(server->estimate, &of, request->bytes, request->sample_count, out, out_order);
        return;
    }
    const struct stk_cost_features features = of_payload(request);
    stk_estimate_batch(server->estimate, &of, &features, out);
    if (out_order) *out_order = NULL;
}

void stk_forecast_request(struct stk_server *server, const struct stk_lane *lane, const struct stk_request *request,
                          struct stk_event *event)
{
    struct stk_cost cost;
    predict(server, lane, request, &cost, NULL);
    event->cpu_ns = cost.cpu_ns;
    event->io_ns = cost.io_ns;
    event->margin_ns = cost.late_ns - cost.cpu_ns - cost.io_ns;
    event->output_bytes = lane->kind == STK_SOURCE_PROCESS ? cost.output_bytes : request->layout.total_bytes;
}

void stk_forecast_placed(struct stk_server *server, const struct stk_lane *lane, const struct stk_request *request,
                         uint32_t items)
{
    struct stk_cost cost;
    const uint32_t *order = NULL;
    predict(server, lane, request, &cost, &order);
    if (order) stk_dispatch_set_order(server->dispatch, request->batch, order, stk_estimate_scratch(server->estimate));
    stk_dispatch_set_cost(server->dispatch, request->batch, (cost.cpu_ns + cost.io_ns) / items,
                          stk_coordinator_window_ns(server->coordinator, lane->index));
}

void stk_forecast_done(struct stk_server *server, const struct stk_lane *lane, struct stk_request *request,
                       const struct stk_worker *worker, const struct stk_message_done *done)
{
    const struct stk_estimate_of of = of_lane(server, lane);
    struct stk_cost_result result = {.cpu_ns = done->cpu_ns, .wall_ns = done->wall_ns};
    struct stk_estimate_of sample = of;
    request->cpu_ns += done->cpu_ns;
    request->wall_ns += done->wall_ns;
    if (worker->copies) return;
    if (done->status < 0) result.flags |= STK_COST_FAILED;
    if (worker->attempt > 0) result.flags |= STK_COST_RETRIED;
    if (!worker->finished_any) result.flags |= STK_COST_FIRST_ON_WORKER;
    result.output_bytes = of.source ? request->layout.sample_bytes : done->used;
    if (of.source) sample.class_id = stk_estimate_sample(server->estimate, &of, worker->sample_id, &result.features);
    if (sample.class_id != of.class_id) stk_estimate_learn(server->estimate, &sample, &result);
    /* The request's own class learns every sample, by what is known of any. */
    result.features = of.source ? stk_estimate_features(of.source, worker->sample_id) : of_payload(request);
    stk_estimate_learn(server->estimate, &of, &result);
}
