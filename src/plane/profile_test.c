/* SPDX-License-Identifier: Apache-2.0 */
#include <stoker/profile.h>

#include <stdlib.h>
#include <string.h>

#include "sched/cost.h"
#include "tests/support/unit.h"

#define CLIP GOLDEN_MEDIA "/h264_bframes_g12.mp4"

static void test_kinds_have_names(void **state)
{
    (void)state;
    for (uint32_t kind = 0; kind < STK_COST_CLASSES; kind++)
        assert_int_equal(stoker_cost_kind_of(stoker_cost_kind_name(kind)), kind);
    assert_int_equal(stoker_cost_kind_of("hevc"), STK_COST_HEVC);
    assert_int_equal(stoker_cost_kind_of("prores"), STK_COST_VIDEO_SIMPLE);
    assert_string_equal(stoker_cost_kind_name(77), "other");
}

static void test_a_sample_is_measured(void **state)
{
    (void)state;
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    stoker_cost_row row;
    stoker_error err = {0};
    spec.frames = 4, spec.width = spec.height = 32;
    void *dst = malloc(stoker_video_sample_bytes(&spec));
    assert_int_equal(stoker_profile_video(CLIP, &spec, dst, &row, &err), STOKER_OK);
    assert_int_equal(row.kind, STK_COST_H264);
    assert_int_equal(row.samples, 1);
    assert_int_equal(row.pixels_out, 4 * 32 * 32);
    assert_int_equal(row.output_bytes, 4 * 3 * 32 * 32);
    assert_true(row.pixels_in > 0 && row.bytes_in > 0 && row.bytes_in <= row.input_bytes);
    assert_true(row.cpu_ns > 0 && row.wall_ns > 0);
    assert_int_equal(stoker_profile_video(GOLDEN_MEDIA "/none.mp4", &spec, dst, &row, &err), STOKER_ERR_NOT_FOUND);
    free(dst);
}

/* Costs of three times the priors: the priors are off by two thirds, the taught model by next to nothing. */
static void test_the_model_is_judged_on_rows_that_it_has_not_seen(void **state)
{
    (void)state;
    static stoker_cost_row rows[400];
    stoker_cost_judgement judgement;
    stoker_error err = {0};
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t pixels = 1000000 + i * 7919 % 400 * 100000, bytes = 10000 + i * 104729 % 400 * 2000;
        rows[i] = (stoker_cost_row){.kind = STK_COST_H264, .samples = 1, .pixels_in = pixels, .bytes_in = bytes};
        rows[i].cpu_ns = rows[i].wall_ns = 3 * (1500000 + pixels * 95 / 100 + bytes * 92);
    }
    assert_int_equal(stoker_profile_judge(rows, 400, 200, 0, &judgement, &err), STOKER_OK);
    assert_int_equal(judgement.judged, 200);
    assert_true(judgement.prior_median > 0.66 && judgement.prior_median < 0.67);
    assert_true(judgement.p95 < 0.02 && judgement.median <= judgement.p95 && judgement.p95 <= judgement.worst);
    assert_int_equal(stoker_profile_judge(rows, 400, 0, 1, &judgement, &err), STOKER_OK);
    assert_true(judgement.median < 0.02);
    assert_int_equal(stoker_profile_judge(rows, 400, 400, 0, &judgement, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_have_names),
        cmocka_unit_test(test_a_sample_is_measured),
        cmocka_unit_test(test_the_model_is_judged_on_rows_that_it_has_not_seen),
    };
    return stk_run_tests(tests);
}
