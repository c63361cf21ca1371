/* SPDX-License-Identifier: Apache-2.0
 *
 * What a source from a manifest knows of the work of its samples, against the same samples measured.
 */
#include "source/work.h"

#include "media/manifest_fixture.h"
#include "source/source_fixture.h"

static stoker_video_spec spec_of(void)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 4, spec.width = 16, spec.height = 24;
    return spec;
}

static struct stoker_source *create(const char *path)
{
    const stoker_path_list list = {.paths = &path, .count = 1};
    const stoker_video_spec spec = spec_of();
    struct stoker_source *source = NULL;
    stoker_error err;
    if (stoker_source_create_video(&list, &spec, &source, &err) != STOKER_OK) fail_msg("%s", err.message);
    return source;
}

static void test_a_manifest_knows_the_work_of_a_sample_without_its_file(void **state)
{
    (void)state;
    static const char *const names[] = {"h264_bframes_g12.mp4", "vfr.mp4"};
    const stoker_video_spec spec = spec_of();
    struct stk_source_work measured[2], known;
    uint8_t sample[4 * 3 * 16 * 24];
    for (int i = 0; i < 2; i++) {
        fixture_clip(names[i], names[i]);
        assert_int_equal(stk_source_measure(inside(names[i]), &spec, sample, &measured[i], NULL), STOKER_OK);
        assert_true(measured[i].pixels > 0 && measured[i].bytes > 0);
    }
    (void)fixture_build("m", names, 2, NULL);
    struct stoker_source *source = create(inside("m")), *worker = reopen(source);
    for (int i = 0; i < 2; i++) assert_int_equal(unlink(inside(names[i])), 0);
    for (uint64_t i = 0; i < 2; i++) {
        assert_true(stk_source_work(source, i, &known));
        assert_string_equal(known.codec, "h264");
        assert_int_equal(known.pixels, measured[i].pixels);
        assert_int_equal(known.bytes, measured[i].bytes);
        memset(&known, 0, sizeof known);
        assert_true(stk_source_work(worker, i, &known));
        assert_int_equal(known.pixels, measured[i].pixels);
    }
    stoker_source_close(worker);
    stoker_source_close(source);
}

static void test_a_list_of_paths_knows_nothing(void **state)
{
    (void)state;
    struct stk_source_work work;
    struct stoker_source *source = create(clip_path("vfr.mp4"));
    assert_false(stk_source_work(source, 0, &work));
    stoker_source_close(source);
}

static void test_a_measure_says_why_it_failed(void **state)
{
    (void)state;
    stoker_video_spec spec = spec_of();
    struct stk_source_work work;
    uint8_t sample[1];
    stoker_error err = {0};
    assert_int_equal(stk_source_measure("/absent.mp4", &spec, sample, &work, &err), STOKER_ERR_NOT_FOUND);
    spec.frames = 0;
    assert_int_equal(stk_source_measure("/absent.mp4", &spec, sample, &work, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_manifest_knows_the_work_of_a_sample_without_its_file, fixture_begin,
                                        fixture_end),
        cmocka_unit_test(test_a_list_of_paths_knows_nothing),
        cmocka_unit_test(test_a_measure_says_why_it_failed),
    };
    return stk_run_tests(tests);
}
