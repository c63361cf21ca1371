/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a packet from its own bytes.
 */
#include "media/ffmpeg_audio_internal.h"

#include "tests/support/unit.h"

static uint32_t count(enum AVCodecID codec, int rate, const void *bytes, int size, bool *out_known)
{
    AVCodecParameters parameters = {.codec_id = codec, .sample_rate = rate, .frame_size = 1024};
    AVStream stream = {.codecpar = &parameters, .time_base = {1, 1000}};
    AVPacket packet = {.data = (uint8_t *)(uintptr_t)bytes, .size = size, .duration = 23};
    struct stk_sound_counter counter;
    stoker_error err;
    uint32_t samples = 0;
    parameters.ch_layout.nb_channels = 2;
    assert_int_equal(stk_sound_counter_init(&counter, &stream, &err), STOKER_OK);
    *out_known = stk_sound_counter_packet(&counter, &packet, &samples);
    stk_sound_counter_fini(&counter);
    return samples;
}

static void test_count_flac(void **state)
{
    (void)state;
    bool known;
    const uint8_t fixed[] = {0xff, 0xf8, 0xc9, 0x18, 0x00, 0x00};                     /* code 12: 4096 */
    const uint8_t short_end[] = {0xff, 0xf8, 0x69, 0x18, 0x05, 0x4f};                 /* code 6: a byte, 80 */
    const uint8_t wide_end[] = {0xff, 0xf9, 0x79, 0x18, 0xc4, 0x80, 0x04, 0x7f, 0};   /* code 7 after 2 bytes: 1152 */
    const uint8_t deep[] = {0xff, 0xf9, 0x79, 0x18, 0xfe, 1, 2, 3, 4, 5, 6, 0x01, 0}; /* after 7 bytes: 257 */
    assert_int_equal(count(AV_CODEC_ID_FLAC, 44100, fixed, sizeof fixed, &known), 4096);
    assert_int_equal(count(AV_CODEC_ID_FLAC, 44100, short_end, sizeof short_end, &known), 80);
    assert_true(known);
    assert_int_equal(count(AV_CODEC_ID_FLAC, 44100, wide_end, sizeof wide_end, &known), 1152);
    assert_int_equal(count(AV_CODEC_ID_FLAC, 44100, deep, sizeof deep, &known), 257);
    assert_true(known);
    for (int size = 0; size < (int)sizeof deep - 1; size++) {
        (void)count(AV_CODEC_ID_FLAC, 44100, deep, size, &known);
        assert_false(known);
    }
    (void)count(AV_CODEC_ID_FLAC, 44100, "\xff\xf8\x09\x18\x00\x00", 6, &known);
    assert_false(known); /* code 0 is reserved */
}

static void test_count_opus(void **state)
{
    (void)state;
    bool known;
    assert_int_equal(count(AV_CODEC_ID_OPUS, 48000, "\x08", 1, &known), 960);     /* SILK, 20 ms, one frame */
    assert_int_equal(count(AV_CODEC_ID_OPUS, 48000, "\xf9", 1, &known), 1920);    /* CELT, 20 ms, two frames */
    assert_int_equal(count(AV_CODEC_ID_OPUS, 48000, "\x83\x05", 2, &known), 600); /* CELT, 2.5 ms, five frames */
    assert_int_equal(count(AV_CODEC_ID_OPUS, 48000, "\x68", 1, &known), 960);     /* hybrid, 20 ms */
    assert_true(known);
    (void)count(AV_CODEC_ID_OPUS, 48000, "", 0, &known);
    assert_false(known);
    (void)count(AV_CODEC_ID_OPUS, 48000, "\x83", 1, &known);
    assert_false(known);
    (void)count(AV_CODEC_ID_OPUS, 48000, "\x1b\x3f", 2, &known); /* 63 frames of 60 ms */
    assert_false(known);
    (void)count(AV_CODEC_ID_OPUS, 48000, "\x1b\x00", 2, &known); /* none */
    assert_false(known);
}

static void test_count_of_fixed_codecs(void **state)
{
    (void)state;
    bool known;
    assert_int_equal(count(AV_CODEC_ID_MP3, 44100, "", 0, &known), 1152);
    assert_int_equal(count(AV_CODEC_ID_MP3, 22050, "", 0, &known), 576);
    assert_int_equal(count(AV_CODEC_ID_MP2, 16000, "", 0, &known), 1152);
    assert_int_equal(count(AV_CODEC_ID_MP1, 44100, "", 0, &known), 384);
    assert_int_equal(count(AV_CODEC_ID_AAC, 44100, "", 0, &known), 1024);
    assert_int_equal(count(AV_CODEC_ID_PCM_S16LE, 44100, "", 400, &known), 100);
    assert_int_equal(count(AV_CODEC_ID_PCM_S24BE, 44100, "", 600, &known), 100);
    assert_int_equal(count(AV_CODEC_ID_PCM_MULAW, 8000, "", 200, &known), 100);
    assert_true(known);
}

/* Times in milliseconds say nothing about samples, and these codecs nothing else. */
static void test_count_says_when_it_cannot(void **state)
{
    (void)state;
    bool known = true;
    (void)count(AV_CODEC_ID_ALAC, 44100, "", 0, &known);
    assert_false(known);
    known = true;
    (void)count(AV_CODEC_ID_AC3, 48000, "", 0, &known);
    assert_false(known);
    known = true;
    (void)count(AV_CODEC_ID_ADPCM_MS, 48000, "", 100, &known);
    assert_false(known);
    known = true;
    (void)count(AV_CODEC_ID_VORBIS, 48000, "", 0, &known); /* without its headers */
    assert_false(known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count_flac),
        cmocka_unit_test(test_count_opus),
        cmocka_unit_test(test_count_of_fixed_codecs),
        cmocka_unit_test(test_count_says_when_it_cannot),
    };
    return stk_run_tests(tests);
}
