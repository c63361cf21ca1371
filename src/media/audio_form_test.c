/* SPDX-License-Identifier: Apache-2.0
 *
 * What a form may say, and the size that follows.
 */
#include "media/audio.h"

#include <math.h>

#include "tests/support/unit.h"

static stoker_audio_spec good(void)
{
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    spec.rate = 16000, spec.channels = 1, spec.duration_s = 2;
    return spec;
}

static void test_form_sizes(void **state)
{
    (void)state;
    stoker_audio_spec spec = good();
    stoker_mel_spec mel = STOKER_MEL_SPEC_INIT;
    assert_int_equal(stoker_audio_sample_bytes(&spec), 32000 * 4);
    spec.channels = 2, spec.dtype = STOKER_DTYPE_INT16;
    assert_int_equal(stoker_audio_sample_bytes(&spec), 32000 * 2 * 2);
    spec = good();
    spec.mel = &mel;
    assert_int_equal(stoker_audio_sample_bytes(&spec), 80 * 200 * 4);
    spec.duration_s = 30, mel.bands = 128;
    assert_int_equal(stoker_audio_sample_bytes(&spec), 128 * 3000 * 4);
    spec = good();
    spec.duration_s = 1.00003; /* 16000.48 samples: to the nearest */
    assert_int_equal(stoker_audio_sample_bytes(&spec), 16000 * 4);
    assert_int_equal(stoker_audio_sample_bytes(NULL), 0);
}

static void test_form_defaults(void **state)
{
    (void)state;
    struct stk_audio_form form;
    stoker_audio_spec spec = good();
    stoker_error err;
    assert_int_equal(stk_audio_form_init(&form, &spec, true, &err), STOKER_OK);
    assert_int_equal(form.dtype, STOKER_DTYPE_FLOAT32);
    assert_true(form.spec.damaged_max == 0.5);
    spec.damaged_max = -1, spec.start_s = 0.5;
    assert_int_equal(stk_audio_form_init(&form, &spec, true, &err), STOKER_OK);
    assert_true(form.spec.damaged_max == 0);
    assert_int_equal(form.start, 8000);
    spec.rate = 0, spec.channels = 0, spec.duration_s = 0;
    assert_int_equal(stk_audio_form_init(&form, &spec, false, &err), STOKER_OK);
    assert_int_equal(form.sample_bytes, 0);
}

static void test_form_refuses(void **state)
{
    (void)state;
    struct stk_audio_form form;
    stoker_error err;
    stoker_mel_spec mel = STOKER_MEL_SPEC_INIT;
    stoker_audio_spec bad[24];
    size_t count = 0;
    for (size_t i = 0; i < 24; i++) bad[i] = good();
    bad[count++].rate = 0;
    bad[count++].rate = 99;
    bad[count++].rate = 768001;
    bad[count++].channels = 0;
    bad[count++].channels = 3;
    bad[count++].duration_s = 0;
    bad[count++].duration_s = -1;
    bad[count++].duration_s = NAN;
    bad[count++].duration_s = 2e8;
    bad[count++].duration_s = 0.00001;
    bad[count++].start_s = -0.1;
    bad[count++].start_s = INFINITY;
    bad[count++].dtype = STOKER_DTYPE_UINT8;
    bad[count++].start = (stoker_audio_start)3;
    bad[count++].short_sound = (stoker_audio_short)2;
    bad[count++].seek = (stoker_audio_seek)2;
    bad[count++].mark = 2;
    bad[count++].damaged_max = 1.1;
    bad[count].start = STOKER_AUDIO_RANDOM, bad[count++].start_s = 1;
    bad[count].mel = &mel, bad[count++].channels = 2;
    bad[count].mel = &mel, bad[count++].dtype = STOKER_DTYPE_INT16;
    bad[count].mel = &mel, bad[count++].duration_s = 0.0125; /* 200 samples */
    for (size_t i = 0; i < count; i++) {
        memset(&err, 0, sizeof err);
        assert_int_equal(stk_audio_form_init(&form, &bad[i], true, &err), STOKER_ERR_INVALID_ARGUMENT);
        assert_true(err.message[0] != 0);
        assert_int_equal(stoker_audio_sample_bytes(&bad[i]), 0);
    }
    bad[0] = good(), bad[0].struct_size--;
    assert_int_equal(stk_audio_form_init(&form, &bad[0], true, &err), STOKER_ERR_UNSUPPORTED);
    bad[0] = good(), bad[0].duration_s = 1e8, bad[0].rate = 768000;
    assert_int_equal(stk_audio_form_init(&form, &bad[0], true, &err), STOKER_ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form_sizes),
        cmocka_unit_test(test_form_defaults),
        cmocka_unit_test(test_form_refuses),
    };
    return stk_run_tests(tests);
}
