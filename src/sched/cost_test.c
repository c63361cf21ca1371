/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/cost.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

#define MS UINT64_C(1000000)

static uint64_t draws;
static struct stk_cost_model *model;
static size_t model_size;

static uint64_t below(uint64_t bound)
{
    draws ^= draws << 13, draws ^= draws >> 7, draws ^= draws << 17;
    return (draws >> 16) % bound;
}

static struct stk_cost_model *make(uint32_t models)
{
    free(model);
    model_size = (stk_cost_bytes(models) + 15) & ~(size_t)15;
    model = stk_cost_init(aligned_alloc(16, model_size), model_size, models);
    return model;
}

static int setup(void **state)
{
    (void)state;
    draws = 88172645463325252u;
    make(64);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(model);
    model = NULL;
    return 0;
}

static struct stk_cost_features draw_clip(void)
{
    return (struct stk_cost_features){1, 2000000 + below(40000000), 20000 + below(900000), 800000 + below(12000000), 0};
}

/* The world of these tests: H.264 at its priors, times `percent`, give or take `noise` percent. */
static uint64_t true_ns(const struct stk_cost_features *f, uint64_t percent, uint64_t noise)
{
    uint64_t ns = 1500000 * f->samples + f->pixels_in * 95 / 100 + f->bytes_in * 92 + f->pixels_out;
    return ns * percent / 100 * (100 + (noise ? below(2 * noise + 1) : 0) - noise) / 100;
}

static const struct stk_cost_key h264 = {1, STK_COST_H264, 7};

static bool teach(const struct stk_cost_key *key, struct stk_cost_features f, uint64_t cpu_ns, uint64_t wall_ns)
{
    const struct stk_cost_result result = {f, cpu_ns, wall_ns, 1000, 0};
    return stk_cost_learn(model, key, &result);
}

static struct stk_cost ask(const struct stk_cost_key *key, struct stk_cost_features f)
{
    struct stk_cost cost;
    stk_cost_predict(model, key, &f, &cost);
    return cost;
}

static void assert_within(uint64_t value, uint64_t expected, uint64_t percent)
{
    uint64_t distance = value > expected ? value - expected : expected - value;
    if (distance * 100 > expected * percent)
        fail_msg("%llu is not within %llu %% of %llu", (unsigned long long)value, (unsigned long long)percent,
                 (unsigned long long)expected);
}

static void test_priors_are_those_of_the_table(void **state)
{
    (void)state;
    /* 100 Mpx and 0.5 MB in, 1 Mpx out. */
    const struct stk_cost_features f = {1, 100000000, 500000, 1000000, 0};
    const struct {
        uint32_t class_id;
        double ms;
    } rows[] = {{STK_COST_H264, 1.5 + 95 + 46 + 1.0},
                {STK_COST_HEVC, 1.5 + 124 + 75.5 + 1.0},
                {STK_COST_VP9, 1.5 + 90 + 59.5 + 1.0},
                {STK_COST_AV1, 1.5 + 53 + 45.5 + 1.0},
                {STK_COST_MPEG4, 1.5 + 46 + 8 + 1.0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stk_cost cost = ask(&(struct stk_cost_key){1, rows[i].class_id, 1}, f);
        assert_within(cost.cpu_ns, (uint64_t)(rows[i].ms * 1e6 + 0.5), 0);
        assert_int_equal(cost.learned, 0);
        assert_int_equal(cost.late_ns, 2 * (cost.cpu_ns + cost.io_ns)); /* nothing known yet: twice */
    }
    assert_int_equal(stk_cost_error_permille(model, &h264, 950), 1000);
    /* A class of a newer peer. */
    assert_int_equal(ask(&(struct stk_cost_key){1, 999, 1}, f).cpu_ns, 10 * MS);
    assert_true(teach(&(struct stk_cost_key){1, 999, 1}, f, MS, MS));
}

static void test_learns_a_host_of_another_speed(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct stk_cost_features f = draw_clip();
        uint64_t cpu = true_ns(&f, 250, 10);
        assert_true(teach(&h264, f, cpu, cpu + MS));
    }
    for (int i = 0; i < 50; i++) {
        struct stk_cost_features f = draw_clip();
        struct stk_cost cost = ask(&h264, f);
        assert_within(cost.cpu_ns, true_ns(&f, 250, 0), 5);
        assert_int_equal(cost.learned, 200);
        assert_int_equal(cost.output_bytes, 1000);
    }
}

static void test_d2_io_learns_from_wall_minus_cpu(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct stk_cost_features f = draw_clip();
        f.pixels_in /= 20, f.bytes_in /= 4, f.pixels_out = 0; /* I/O that can be told from the rest */
        uint64_t cpu = true_ns(&f, 100, 0);
        teach(&h264, f, cpu, cpu + MS / 2 + f.bytes_in * 4); /* half a millisecond, 250 MB/s */
    }
    struct stk_cost_coefficients c;
    stk_cost_coefficients(model, &h264, &c);
    assert_within((uint64_t)c.io[0], MS / 2, 20);
    assert_within((uint64_t)c.io[2], 4 * MS, 20);
    assert_within((uint64_t)c.cpu[1], 950000, 3);
    assert_within((uint64_t)c.cpu[2], 92 * MS, 3);
    /* A clock that runs backwards is no I/O time. */
    struct stk_cost_features f = draw_clip();
    assert_true(teach(&(struct stk_cost_key){2, STK_COST_H264, 7}, f, 10 * MS, 5 * MS));
}

static void test_d2_retried_failed_and_first_results_teach_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct stk_cost_features f = draw_clip();
        uint64_t cpu = true_ns(&f, 100, 10);
        teach(&h264, f, cpu, cpu);
    }
    void *before = malloc(model_size);
    memcpy(before, model, model_size);
    for (uint32_t flags = 1; flags < 8; flags++) {
        const struct stk_cost_result result = {draw_clip(), 500 * MS, 900 * MS, 1, flags};
        assert_false(stk_cost_learn(model, &h264, &result));
        assert_false(stk_cost_learn(model, &(struct stk_cost_key){9, STK_COST_VP9, 9}, &result));
    }
    struct stk_cost_result result = {draw_clip(), 0, 900 * MS, 1, 0};
    assert_false(stk_cost_learn(model, &h264, &result)); /* no CPU time: a clock that failed */
    result = (struct stk_cost_result){{0, 1, 1, 1, 0}, MS, MS, 1, 0};
    assert_false(stk_cost_learn(model, &h264, &result)); /* of no samples */
    assert_memory_equal(before, model, model_size);
    free(before);
}

static void test_d2_residuals_are_clipped_at_p95(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct stk_cost_features f = draw_clip();
        uint64_t cpu = true_ns(&f, 100, 10);
        teach(&h264, f, cpu, cpu);
    }
    assert_true(stk_cost_error_permille(model, &h264, 950) < 130);
    struct stk_cost_features f = draw_clip();
    uint64_t before = ask(&h264, f).cpu_ns;
    for (int i = 0; i < 3; i++) teach(&h264, f, 1000 * before, 1000 * before); /* a swapping host */
    assert_within(ask(&h264, f).cpu_ns, before, 1);
}

static void test_d2_coefficients_are_bounded_by_the_prior(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) teach(&h264, draw_clip(), 1, 1);
    struct stk_cost_coefficients prior, c;
    stk_cost_prior(STK_COST_H264, &prior);
    stk_cost_coefficients(model, &h264, &c);
    for (uint32_t i = 0; i < 4; i++) assert_true(c.cpu[i] >= prior.cpu[i] / 8.000001);
    for (int i = 0; i < 500; i++) teach(&h264, draw_clip(), UINT64_C(1) << 50, UINT64_C(1) << 51);
    stk_cost_coefficients(model, &h264, &c);
    for (uint32_t i = 0; i < 4; i++) assert_true(c.cpu[i] <= prior.cpu[i] * 8.000001);
}

static void test_late_covers_95_percent(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        struct stk_cost_features f = draw_clip();
        uint64_t cpu = true_ns(&f, 100, 30);
        teach(&h264, f, cpu, cpu);
    }
    int covered = 0;
    for (int i = 0; i < 2000; i++) {
        struct stk_cost_features f = draw_clip();
        struct stk_cost cost = ask(&h264, f);
        assert_true(cost.late_ns >= cost.cpu_ns + cost.io_ns);
        covered += true_ns(&f, 100, 30) <= cost.late_ns;
    }
    assert_in_range(covered, 1800, 1990); /* 95 %, of 128 residuals: not all, not few */
}

static void test_a_new_host_starts_from_all_hosts(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct stk_cost_features f = draw_clip();
        uint64_t cpu = true_ns(&f, 300, 5);
        teach(&h264, f, cpu, cpu);
    }
    const struct stk_cost_key unseen = {1, STK_COST_H264, 8};
    struct stk_cost_features f = draw_clip();
    assert_within(ask(&unseen, f).cpu_ns, true_ns(&f, 300, 0), 5);
    /* Its own first result moves it, and does not undo what the others taught. */
    teach(&unseen, f, true_ns(&f, 300, 0), true_ns(&f, 300, 0));
    f = draw_clip();
    assert_within(ask(&unseen, f).cpu_ns, true_ns(&f, 300, 0), 5);
    /* Another job starts from the priors. */
    assert_int_equal(ask(&(struct stk_cost_key){2, STK_COST_H264, 7}, f).learned, 0);
}

static void test_a_batch_costs_the_sum_of_its_samples(void **state)
{
    (void)state;
    struct stk_cost_features sum = {0, 0, 0, 0, 0};
    uint64_t expected = 0;
    for (int i = 0; i < 30; i++) {
        struct stk_cost_features f = draw_clip();
        uint64_t cpu = true_ns(&f, 140, 20);
        teach(&h264, f, cpu, cpu);
    }
    for (int i = 0; i < 64; i++) {
        struct stk_cost_features f = draw_clip();
        stk_cost_features_add(&sum, &f);
        expected += ask(&h264, f).cpu_ns;
    }
    struct stk_cost cost = ask(&h264, sum);
    assert_true(cost.cpu_ns + 64 >= expected);
    assert_true(cost.cpu_ns <= expected + 64);
    assert_int_equal(cost.output_bytes, 64000);
    struct stk_cost_features full = {UINT64_MAX, 1, UINT64_MAX, 0, 5};
    stk_cost_features_add(&full, &sum);
    assert_true(full.samples == UINT64_MAX && full.bytes_in == UINT64_MAX);
}

static void test_a_dataset_without_estimates_gets_its_own_mean(void **state)
{
    (void)state;
    const struct stk_cost_key python = {1, STK_COST_OTHER, 7};
    assert_int_equal(ask(&python, (struct stk_cost_features){4, 0, 0, 0, 0}).cpu_ns, 40 * MS);
    for (int i = 0; i < 60; i++) {
        uint64_t cpu = 4 * 700 * MS * (90 + below(21)) / 100; /* far beyond eight times 10 ms */
        teach(&python, (struct stk_cost_features){4, 0, 0, 0, 0}, cpu, cpu);
    }
    assert_within(ask(&python, (struct stk_cost_features){2, 0, 0, 0, 0}).cpu_ns, 1400 * MS, 3);
}

static void test_estimate_cost_is_honoured(void **state)
{
    (void)state;
    const struct stk_cost_key python = {1, STK_COST_OTHER, 7};
    /* Before any result the estimate is the cost. */
    assert_int_equal(ask(&python, (struct stk_cost_features){1, 0, 0, 0, 123 * MS}).cpu_ns, 123 * MS);
    /* Estimates that are in other units, or off by a factor, are scaled; their order is kept. */
    for (int i = 0; i < 100; i++) {
        uint64_t hint = MS + below(100 * MS);
        uint64_t cpu = (5 * hint + 2 * MS) * (95 + below(11)) / 100;
        teach(&python, (struct stk_cost_features){1, 0, 0, 0, hint}, cpu, cpu);
    }
    assert_within(ask(&python, (struct stk_cost_features){1, 0, 0, 0, 80 * MS}).cpu_ns, 402 * MS, 4);
    assert_within(ask(&python, (struct stk_cost_features){1, 0, 0, 0, 5 * MS}).cpu_ns, 27 * MS, 12);
}

static void test_a_full_table_drops_the_oldest(void **state)
{
    (void)state;
    make(8);
    const struct stk_cost_features f = {1, 1000000, 1000, 1000, 0};
    for (uint32_t host = 0; host < 100; host++) {
        teach(&(struct stk_cost_key){1, STK_COST_H264, host}, f, 50 * MS, 50 * MS);
        assert_int_equal(stk_cost_count(model), host + 2 < 8 ? host + 2 : 8);
    }
    /* All hosts' model learned last of all and stays; the newest seven hosts do. */
    assert_int_equal(ask(&(struct stk_cost_key){1, STK_COST_H264, STK_COST_ANY_HOST}, f).learned, 100);
    assert_int_equal(ask(&(struct stk_cost_key){1, STK_COST_H264, 99}, f).learned, 1);
    assert_int_equal(ask(&(struct stk_cost_key){1, STK_COST_H264, 93}, f).learned, 1);
    assert_int_equal(ask(&(struct stk_cost_key){1, STK_COST_H264, 92}, f).learned, 100); /* of all hosts */
    make(1);
    assert_true(teach(&h264, f, 50 * MS, 50 * MS));
    assert_int_equal(stk_cost_count(model), 1);
    assert_int_equal(ask(&h264, f).learned, 1);
}

static void test_forgets_jobs_and_hosts(void **state)
{
    (void)state;
    const struct stk_cost_features f = {1, 1000000, 1000, 1000, 0};
    for (uint32_t job = 1; job <= 3; job++)
        for (uint32_t host = 1; host <= 4; host++)
            teach(&(struct stk_cost_key){job, STK_COST_VP9, host}, f, 50 * MS, 50 * MS);
    assert_int_equal(stk_cost_count(model), 15);
    stk_cost_forget_job(model, 2);
    assert_int_equal(stk_cost_count(model), 10);
    assert_int_equal(ask(&(struct stk_cost_key){2, STK_COST_VP9, 1}, f).learned, 0);
    stk_cost_forget_host(model, 4);
    assert_int_equal(stk_cost_count(model), 8);
    assert_int_equal(ask(&(struct stk_cost_key){1, STK_COST_VP9, 4}, f).learned, 4); /* of all hosts */
    for (uint32_t job = 1; job <= 3; job++) stk_cost_forget_job(model, job);
    assert_int_equal(stk_cost_count(model), 0);
    for (uint32_t host = 0; host < 200; host++) /* all room came back */
        teach(&(struct stk_cost_key){1, STK_COST_VP9, host}, f, 50 * MS, 50 * MS);
    assert_int_equal(stk_cost_count(model), 64);
}

static void test_same_calls_give_the_same_bits(void **state)
{
    (void)state;
    void *first = NULL;
    for (int run = 0; run < 2; run++) {
        make(16);
        draws = 42;
        for (int i = 0; i < 2000; i++) {
            struct stk_cost_features f = draw_clip();
            f.hint_ns = below(5) ? 0 : below(MS);
            const struct stk_cost_key key = {(uint32_t)below(3), (uint32_t)below(STK_COST_CLASSES), (uint32_t)below(9)};
            uint64_t cpu = true_ns(&f, 20 + below(400), 20);
            teach(&key, f, cpu, cpu + below(cpu));
        }
        if (run == 0) {
            first = malloc(model_size);
            memcpy(first, model, model_size);
        } else {
            int difference = memcmp(first, model, model_size);
            free(first);
            assert_int_equal(difference, 0);
        }
    }
}

/* Whatever comes from outside, what comes out is a bounded whole number. */
static void test_extreme_figures_stay_bounded(void **state)
{
    (void)state;
    const uint64_t extremes[] = {0, 1, 1000, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX};
    for (int i = 0; i < 5000; i++) {
        struct stk_cost_result result = {
            {extremes[below(6)], extremes[below(6)], extremes[below(6)], extremes[below(6)], extremes[below(6)]},
            extremes[below(6)],
            extremes[below(6)],
            extremes[below(6)],
            0};
        const struct stk_cost_key key = {0, (uint32_t)below(STK_COST_CLASSES), (uint32_t)below(3)};
        (void)stk_cost_learn(model, &key, &result);
        struct stk_cost cost = ask(&key, result.features);
        assert_true(cost.cpu_ns <= UINT64_C(1) << 60);
        assert_true(cost.io_ns <= UINT64_C(1) << 60);
        assert_true(cost.late_ns >= cost.cpu_ns + cost.io_ns);
        assert_true(stk_cost_error_permille(model, &key, 950) <= 2000000);
        struct stk_cost_coefficients c;
        stk_cost_coefficients(model, &key, &c);
        for (int t = 0; t < 5; t++) assert_true(c.cpu[t] >= 0 && c.cpu[t] < 1e300 && c.io[t] >= 0 && c.io[t] < 1e300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_priors_are_those_of_the_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_learns_a_host_of_another_speed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_d2_io_learns_from_wall_minus_cpu, setup, teardown),
        cmocka_unit_test_setup_teardown(test_d2_retried_failed_and_first_results_teach_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_d2_residuals_are_clipped_at_p95, setup, teardown),
        cmocka_unit_test_setup_teardown(test_d2_coefficients_are_bounded_by_the_prior, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_covers_95_percent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_host_starts_from_all_hosts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_batch_costs_the_sum_of_its_samples, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dataset_without_estimates_gets_its_own_mean, setup, teardown),
        cmocka_unit_test_setup_teardown(test_estimate_cost_is_honoured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_table_drops_the_oldest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forgets_jobs_and_hosts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_calls_give_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_extreme_figures_stay_bounded, setup, teardown),
    };
    return stk_run_tests(tests);
}
