/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples: every plan gives the same bytes, nothing is written outside, damage follows the policy, memory of damage
 * changes nothing, and many opens leave no memory behind.
 */
#include "media/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "media/ffmpeg.h"
#include "media/media_fixture.h"

static const char *const good_clips[] = {"alpha_qtrle.mov",
                                         "corrupt_bytes.mp4",
                                         "editlist_cut.mp4",
                                         "fragmented.mp4",
                                         "fullrange_bt709.mp4",
                                         "gif_delays.gif",
                                         "h264_bframes_g12.mp4",
                                         "hevc10_opengop.mp4",
                                         "interlaced_tff.mkv",
                                         "mpeg4_bframes_nopts.avi",
                                         "ptswrap.ts",
                                         "rot90.mp4",
                                         "sar16_11.mp4",
                                         "truncated_faststart.mp4",
                                         "vfr.mp4",
                                         "vp9_odd227x171.webm"};
enum { GOOD_CLIPS = sizeof good_clips / sizeof good_clips[0], CANARY = 64 };

static struct stk_form form_of(uint32_t frames, uint32_t width, uint32_t height, stoker_dtype dtype)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stk_form form;
    spec.frames = frames, spec.width = width, spec.height = height, spec.dtype = dtype;
    assert_int_equal(stk_form_init(&form, &spec, NULL), STOKER_OK);
    return form;
}

static struct stk_decoder *make_decoder(void)
{
    struct stk_decoder *decoder = NULL;
    stoker_error err;
    assert_int_equal(stk_decoder_create(&decoder, &err), STOKER_OK);
    return decoder;
}

/* Decodes between canaries (rule A8); the caller frees the result. */
static uint8_t *decode(struct stk_decoder *decoder, const char *name, const struct stk_form *form, uint64_t *known,
                       stoker_video_result *result)
{
    struct stk_file file = open_clip(name);
    uint8_t *block = malloc(form->sample_bytes + 2 * CANARY), expected[CANARY];
    stoker_error err;
    assert_non_null(block);
    memset(block, 0xa5, form->sample_bytes + 2 * CANARY);
    memset(expected, 0xa5, CANARY);
    assert_int_equal(stk_decoder_video(decoder, &file, form, 0, known, block + CANARY, result, &err), STOKER_OK);
    assert_memory_equal(block, expected, CANARY);
    assert_memory_equal(block + CANARY + form->sample_bytes, expected, CANARY);
    memmove(block, block + CANARY, form->sample_bytes);
    stk_file_close(&file);
    return block;
}

static void test_every_plan_gives_the_same_bytes(void **state)
{
    (void)state;
    const uint32_t counts[] = {1, 2, 3, 8, 100};
    struct stk_decoder *decoder = make_decoder(), *again = make_decoder(), *in_order = make_decoder(),
                       *always = make_decoder(), *once = make_decoder();
    stk_decoder_set_choice(always, STK_PLAN_JUMP_ALWAYS);
    stk_decoder_set_choice(once, STK_PLAN_JUMP_ONCE);
    stk_decoder_set_keep_bytes(again, 0);
    stk_decoder_set_choice(in_order, STK_PLAN_IN_ORDER);
    for (size_t i = 0; i < GOOD_CLIPS; i++)
        for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
            struct stk_form form = form_of(counts[j], 48, 36, STOKER_DTYPE_UINT8);
            uint8_t *planned = decode(decoder, good_clips[i], &form, NULL, NULL);
            uint8_t *reread = decode(again, good_clips[i], &form, NULL, NULL);
            uint8_t *counted = decode(in_order, good_clips[i], &form, NULL, NULL);
            uint8_t *jumped = decode(always, good_clips[i], &form, NULL, NULL);
            uint8_t *joined = decode(once, good_clips[i], &form, NULL, NULL);
            assert_memory_equal(planned, reread, form.sample_bytes);
            assert_memory_equal(planned, counted, form.sample_bytes);
            assert_memory_equal(planned, jumped, form.sample_bytes);
            assert_memory_equal(planned, joined, form.sample_bytes);
            free(jumped);
            free(joined);
            free(planned);
            free(reread);
            free(counted);
        }
    stk_decoder_destroy(decoder);
    stk_decoder_destroy(again);
    stk_decoder_destroy(in_order);
    stk_decoder_destroy(always);
    stk_decoder_destroy(once);
    stk_decoder_destroy(NULL);
}

static void test_a8_nothing_is_written_outside_any_form(void **state)
{
    (void)state;
    const uint32_t sizes[][2] = {{1, 1}, {17, 3}, {224, 224}, {33, 100}, {500, 20}};
    const stoker_dtype types[] = {STOKER_DTYPE_UINT8, STOKER_DTYPE_BFLOAT16, STOKER_DTYPE_FLOAT32};
    struct stk_decoder *decoder = make_decoder();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < 3; j++) {
            struct stk_form form = form_of(3, sizes[i][0], sizes[i][1], types[j]);
            free(decode(decoder, "rot90.mp4", &form, NULL, NULL));
            free(decode(decoder, "vp9_odd227x171.webm", &form, NULL, NULL));
        }
    stk_decoder_destroy(decoder);
}

static void test_short_clip_repeats_its_last_frame_or_fails(void **state)
{
    (void)state;
    struct stk_decoder *decoder = make_decoder();
    struct stk_form form = form_of(11, 32, 24, STOKER_DTYPE_UINT8);
    size_t frame = form.sample_bytes / 11;
    uint8_t *sample = decode(decoder, "gif_delays.gif", &form, NULL, NULL); /* 8 frames */
    assert_memory_equal(sample + 7 * frame, sample + 8 * frame, frame);
    assert_memory_equal(sample + 7 * frame, sample + 10 * frame, frame);
    assert_memory_not_equal(sample + 6 * frame, sample + 7 * frame, frame);
    form.short_clip = STOKER_SHORT_ERROR;
    struct stk_file file = open_clip("gif_delays.gif");
    stoker_error err;
    assert_int_equal(stk_decoder_video(decoder, &file, &form, 0, NULL, sample, NULL, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "8 frames, which gives 8; 11 are wanted"));
    stk_file_close(&file);
    free(sample);
    stk_decoder_destroy(decoder);
}

/* A clip whose middle is overwritten: fewer frames come out than its table promises. */
static void write_damaged(const char *path)
{
    struct stk_file file = open_clip("corrupt_bytes.mp4");
    uint8_t *bytes = malloc(file.size);
    size_t size = 0;
    stoker_error err;
    assert_non_null(bytes);
    assert_int_equal(stk_file_read(&file, 0, bytes, file.size, &size, &err), STOKER_OK);
    memset(bytes + size / 3, 0xff, size / 4);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    free(bytes);
    stk_file_close(&file);
}

/* Sums of the frames that came, by their place in the list. */
struct sums {
    uint64_t of[64];
    size_t count;
};

static stoker_status add_sum(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                             stoker_error *err)
{
    struct sums *sums = user;
    (void)err;
    assert_true(position < 64);
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < (size_t)width * height * 3; i++) sum = (sum ^ rgb[i]) * 1099511628211u;
    sums->of[position] = sum;
    if (position >= sums->count) sums->count = position + 1;
    return STOKER_OK;
}

/* One packet is no picture any more. The k-th frame is that of all that come out, also if a request's own packets are
 * whole. */
static void test_frames_after_a_lost_one_keep_their_numbers(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-lost-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_av *av = NULL;
    uint8_t *bytes = malloc(file.size);
    size_t size = 0;
    assert_non_null(bytes);
    assert_int_equal(stk_file_read(&file, 0, bytes, file.size, &size, NULL), STOKER_OK);
    assert_int_equal(stk_av_open(&file, &av, NULL), STOKER_OK);
    assert_int_equal(stk_av_scan(av, STK_AV_KEEP_BYTES, NULL), STOKER_OK);
    const struct stk_packet_table *table = stk_av_table(av);
    uint64_t promised = table->shown_count;
    /* The seventh packet is a picture that nothing refers to. */
    size_t at = 0;
    while (at + 4 < size && memcmp(bytes + at, "mdat", 4) != 0) at++;
    at += 4;
    for (uint32_t i = 0; i < 6; i++) at += table->packets[i].size;
    assert_true(at + 4 < size);
    memset(bytes + at, 0xff, 4); /* the length of its only unit */
    stk_av_close(av);
    stk_file_close(&file);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    free(bytes);

    struct stk_decoder *decoder = make_decoder();
    struct sums all = {{0}, 0};
    stoker_frame_list list = {.width = 64, .height = 64};
    stoker_error err = {0};
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    uint64_t frames = 0;
    assert_int_equal(stk_decoder_count(decoder, &file, &frames, &err), STOKER_OK);
    assert_int_equal(frames, promised - 1);
    uint64_t every[64];
    for (uint64_t i = 0; i < 64; i++) every[i] = i;
    list.indices = every;
    list.count = frames < 64 ? frames : 64;
    assert_int_equal(stk_decoder_frames(decoder, &file, &list, add_sum, &all, &err), STOKER_OK);
    for (uint64_t i = 0; i < all.count; i++) {
        struct sums one = {{0}, 0};
        list.indices = &i;
        list.count = 1;
        assert_int_equal(stk_decoder_frames(decoder, &file, &list, add_sum, &one, &err), STOKER_OK);
        if (one.of[0] != all.of[i]) fail_msg("frame %llu alone is another one", (unsigned long long)i);
    }
    stk_file_close(&file);
    stk_decoder_destroy(decoder);
    assert_int_equal(unlink(path), 0);
}

static void test_damage_follows_the_policy_and_is_remembered(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-damaged-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    write_damaged(path);
    struct stk_decoder *decoder = make_decoder(), *fresh = make_decoder();
    struct stk_form form = form_of(75, 32, 24, STOKER_DTYPE_UINT8);
    uint8_t *first = malloc(form.sample_bytes), *second = malloc(form.sample_bytes);
    assert_non_null(first);
    assert_non_null(second);
    struct stk_file file;
    stoker_video_result result, quick;
    stoker_error err;
    uint64_t known = 0;
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    assert_int_equal(stk_decoder_video(decoder, &file, &form, 0, &known, first, &result, &err), STOKER_OK);
    assert_int_equal(result.frames_promised, 75);
    assert_in_range(result.frames_presented, 38, 74);
    assert_int_equal(known, result.frames_presented);
    assert_int_equal(stk_decoder_video(fresh, &file, &form, 0, &known, second, &quick, &err), STOKER_OK);
    assert_memory_equal(first, second, form.sample_bytes);
    assert_true(quick.packets_decoded < result.packets_decoded);

    uint64_t counted = 0;
    assert_int_equal(stk_decoder_count(decoder, &file, &counted, &err), STOKER_OK);
    assert_int_equal(counted, result.frames_presented);
    form.damaged_max = 0;
    assert_int_equal(stk_decoder_video(decoder, &file, &form, 0, NULL, first, &result, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "of 75 frames can be decoded"));
    stk_file_close(&file);
    assert_int_equal(unlink(path), 0);
    free(first);
    free(second);
    stk_decoder_destroy(decoder);
    stk_decoder_destroy(fresh);
}

static size_t resident_pages(void)
{
    unsigned long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
    assert_int_equal(fclose(file), 0);
    return resident;
}

/* Situation 6: 2,000 clips opened in one process, one frame each. */
static void test_many_opens_leave_no_memory_behind(void **state)
{
    (void)state;
#ifdef STK_SANITIZED
    STK_SKIP("the sanitizer keeps freed memory for a while");
#endif
    struct stk_decoder *decoder = make_decoder();
    struct stk_form form = form_of(1, 32, 32, STOKER_DTYPE_FLOAT32);
    size_t early = 0;
    for (int i = 0; i < 2000; i++) {
        free(decode(decoder, good_clips[i % GOOD_CLIPS], &form, NULL, NULL));
        if (i == 400) early = resident_pages();
    }
    size_t late = resident_pages();
    assert_true(late < early + (4 << 20) / 4096);
    stk_decoder_destroy(decoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_plan_gives_the_same_bytes),
        cmocka_unit_test(test_a8_nothing_is_written_outside_any_form),
        cmocka_unit_test(test_short_clip_repeats_its_last_frame_or_fails),
        cmocka_unit_test(test_frames_after_a_lost_one_keep_their_numbers),
        cmocka_unit_test(test_damage_follows_the_policy_and_is_remembered),
        cmocka_unit_test(test_many_opens_leave_no_memory_behind),
    };
    return stk_run_tests(tests);
}
