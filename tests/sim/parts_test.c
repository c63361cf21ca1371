/* SPDX-License-Identifier: Apache-2.0
 *
 * The small parts of the simulator: draws, the queue of events, statistics, samples.
 */
#include <math.h>
#include <string.h>

#include "sim/constants.h"
#include "sim/queue.h"
#include "sim/random.h"
#include "sim/run.h"
#include "sim/stats.h"
#include "sim/study.h"
#include "sim/workload.h"
#include "tests/support/unit.h"

static void test_logarithm_and_exponential_agree_with_libm(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        double x = sim_uniform(7, SIM_STREAM_NOISE, i) * (i % 2 ? 1 : 1e6),
               y = (sim_uniform(8, SIM_STREAM_NOISE, i) - 0.5) * 80;
        assert_true(fabs(sim_log(x) - log(x)) <= 4e-16 * (1 + fabs(log(x))));
        assert_true(fabs(sim_exp(y) - exp(y)) <= 1e-14 * exp(y));
    }
    assert_true(sim_log(1) == 0 && sim_exp(0) == 1);
    assert_true(fabs(sim_power(3, 2.5) - pow(3, 2.5)) < 1e-13);
}

static void test_draws_depend_on_seed_stream_and_index_alone(void **state)
{
    (void)state;
    assert_true(sim_bits(1, SIM_STREAM_SIZE, 5) == sim_bits(1, SIM_STREAM_SIZE, 5));
    assert_true(sim_bits(1, SIM_STREAM_SIZE, 5) != sim_bits(2, SIM_STREAM_SIZE, 5));
    assert_true(sim_bits(1, SIM_STREAM_SIZE, 5) != sim_bits(1, SIM_STREAM_TIME, 5));
    assert_true(sim_bits(1, SIM_STREAM_SIZE, 5) != sim_bits(1, SIM_STREAM_SIZE, 6));
    /* Fixed for ever: results that were reported must come out again. */
    assert_true(sim_bits(1001, SIM_STREAM_WINDOW, 17) == UINT64_C(0x02c49287aa658364));
}

static void test_normal_draws_have_the_moments_of_the_normal_distribution(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    double sum = 0, squares = 0, tail = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        double x = sim_normal(3, SIM_STREAM_NOISE, i);
        sum += x;
        squares += x * x;
        tail += x > 1.6448536;
    }
    assert_true(fabs(sum / COUNT) < 0.01);
    assert_true(fabs(squares / COUNT - 1) < 0.02);
    assert_true(fabs(tail / COUNT - 0.05) < 0.002);
}

static void test_queue_gives_events_by_time_then_by_order(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static struct sim_event room[COUNT];
    struct sim_queue queue;
    sim_queue_init(&queue, room, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(sim_queue_put(&queue, sim_bits(1, SIM_STREAM_TIME, i) % 50, SIM_HAPPENS_TICK, i, 0));
    assert_false(sim_queue_put(&queue, 0, SIM_HAPPENS_TICK, 0, 0));
    struct sim_event last = {0}, now;
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_true(sim_queue_take(&queue, &now));
        assert_true(i == 0 || now.at_ns > last.at_ns || (now.at_ns == last.at_ns && now.a > last.a));
        last = now;
    }
    assert_false(sim_queue_take(&queue, &now));
}

static void test_quantiles_means_and_intervals(void **state)
{
    (void)state;
    uint64_t values[100];
    for (uint32_t i = 0; i < 100; i++) values[i] = (i * 37) % 100;
    sim_sort(values, 100);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(values[i], i);
    assert_int_equal(sim_quantile(values, 100, 0.95), 95);
    assert_int_equal(sim_quantile(values, 100, 1), 99);
    assert_int_equal(sim_quantile(values, 0, 0.5), 0);
    const double a[4] = {2, 4, 8, 16}, b[4] = {1, 2, 4, 8}, c[4] = {1, 2, 4, 16};
    assert_true(fabs(sim_geomean(b, 4) - pow(64, 0.25)) < 1e-12);
    struct sim_interval ratio = sim_ratio(a, b, 4, 1);
    assert_true(fabs(ratio.middle - 2) < 1e-12 && fabs(ratio.low - 2) < 1e-12 && fabs(ratio.high - 2) < 1e-12);
    ratio = sim_ratio(a, c, 4, 1);
    assert_true(ratio.low < ratio.middle && ratio.middle < ratio.high && ratio.low >= 1 && ratio.high <= 2);
    struct sim_interval less = sim_difference(b, a, 4, 1);
    assert_true(fabs(less.middle + 3.75) < 1e-12 && less.low < less.middle && less.high > less.middle);
}

static struct sim_workload workload_of(uint32_t number)
{
    struct sim_constants constants;
    static struct sim_config config;
    sim_constants_default(&constants);
    struct sim_study_point point = {.world = SIM_FAIR, .workload = number, .contender = SIM_STUDY_OURS, .remote = 16};
    sim_study_config(&constants, &point, &config);
    return config.workload;
}

static void test_samples_have_the_sizes_and_tokens_of_their_models(void **state)
{
    (void)state;
    struct sim_sample sample;
    const uint64_t videomae[3] = {1568, 7056, 25088};
    const double bytes[3] = {9.6e6, 43.4e6, 154e6};
    struct sim_workload mixed = workload_of(3);
    for (uint64_t step = 0; step < 3; step++) {
        sim_sample_make(&mixed, 1, step, step * 32, &sample);
        assert_int_equal(sample.tokens, videomae[step]);
        assert_true(fabs((double)sample.bytes / bytes[step] - 1) < 0.01);
    }
    struct sim_workload wan = workload_of(9);
    sim_sample_make(&wan, 1, 2, 64, &sample);
    assert_int_equal(sample.tokens, 12544);
    struct sim_workload qwen = workload_of(4);
    sim_sample_make(&qwen, 1, 0, 0, &sample);
    assert_int_equal(sample.tokens, 1152);
}

/* ./dev bench loader measured 57, 61 and 119 ms of CPU time a sample. */
static void test_costs_are_near_those_that_were_measured(void **state)
{
    (void)state;
    const double measured[3] = {0.057, 0.061, 0.119};
    for (uint32_t shape = 0; shape < 3; shape++) {
        struct sim_workload workload = workload_of(shape);
        workload.tail_share = 0;
        double sum = 0;
        for (uint64_t id = 0; id < 4000; id++) {
            struct sim_sample sample;
            sim_sample_make(&workload, 5, 0, id, &sample);
            sum += (double)sample.cost_ns / 1e9 / 4000;
        }
        assert_true(sum > measured[shape] / 2 && sum < measured[shape] * 2);
    }
}

static void test_predictions_err_as_was_measured(void **state)
{
    (void)state;
    struct sim_workload workload = workload_of(3);
    uint64_t errors[4000];
    for (uint64_t id = 0; id < 4000; id++) {
        struct sim_sample sample;
        sim_sample_make(&workload, 5, id, id, &sample);
        errors[id] = (uint64_t)(fabs((double)sample.predicted_ns / (double)sample.cost_ns - 1) * 1e6);
    }
    sim_sort(errors, 4000);
    assert_true(sim_quantile(errors, 4000, 0.5) > 80000 && sim_quantile(errors, 4000, 0.5) < 110000);
    assert_true(sim_quantile(errors, 4000, 0.95) > 250000 && sim_quantile(errors, 4000, 0.95) < 350000);
}

static void test_constants_have_names_of_their_own(void **state)
{
    (void)state;
    struct sim_constants constants;
    sim_constants_default(&constants);
    for (uint32_t i = 0; i < sim_constant_count; i++) {
        assert_ptr_equal(sim_constant_named(&constants, sim_constant_list[i].name), sim_constant_at(&constants, i));
        assert_true(*sim_constant_at(&constants, i) == sim_constant_list[i].value);
    }
    assert_null(sim_constant_named(&constants, "ghost"));
}

static void test_configurations_that_make_no_sense_are_refused_by_name(void **state)
{
    (void)state;
    static struct sim_config config;
    struct sim_constants constants;
    sim_constants_default(&constants);
    struct sim_study_point point = {.world = SIM_FAIR, .contender = SIM_STUDY_OURS, .remote = 16};
    sim_study_config(&constants, &point, &config);
    stoker_error err = {0};
    assert_int_equal(sim_config_check(&config, &err), STOKER_OK);
    config.workload.batch = 0;
    assert_int_equal(sim_config_check(&config, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "workload.batch is 0"));
    config.workload.batch = 4;
    config.system.overheads.stall_rate = NAN;
    assert_int_equal(sim_config_check(&config, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "overheads.stall_rate"));
    config.system.overheads.stall_rate = 0;
    config.fault_count = 1;
    config.faults[0] = (struct sim_fault){.kind = SIM_FAULT_SLOW, .at_s = 5, .until_s = 2, .factor = 2};
    assert_int_equal(sim_config_check(&config, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "before it begins"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logarithm_and_exponential_agree_with_libm),
        cmocka_unit_test(test_draws_depend_on_seed_stream_and_index_alone),
        cmocka_unit_test(test_normal_draws_have_the_moments_of_the_normal_distribution),
        cmocka_unit_test(test_queue_gives_events_by_time_then_by_order),
        cmocka_unit_test(test_quantiles_means_and_intervals),
        cmocka_unit_test(test_samples_have_the_sizes_and_tokens_of_their_models),
        cmocka_unit_test(test_costs_are_near_those_that_were_measured),
        cmocka_unit_test(test_predictions_err_as_was_measured),
        cmocka_unit_test(test_constants_have_names_of_their_own),
        cmocka_unit_test(test_configurations_that_make_no_sense_are_refused_by_name),
    };
    return stk_run_tests(tests);
}
