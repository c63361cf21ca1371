/* SPDX-License-Identifier: Apache-2.0
 *
 * Every frame of every clip, by random access in random order, under all plans, against one decode in order.
 *
 * Clips: the golden ones, those of make_clips.sh and of make_formats.sh (made in the build folder where there is an ffmpeg
 * program), and folders that STOKER_TEST_ACCESS names, separated by colons (the profile set). Wrong frames fail the test;
 * how many were compared is printed, and must not be fewer than STOKER_TEST_ACCESS_FRAMES.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "media/decode.h"
#include "store/file.h"
#include "tests/golden/clips.h"
#include "tests/support/unit.h"

enum { PARTS = 4, SIDE = 96 };

/* Hashes by place in the list. */
struct hashes {
    uint64_t *of;
    size_t count, cap;
};

static uint64_t compared, wrong, clips, refused;

static stoker_status on_frame(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                              stoker_error *err)
{
    struct hashes *hashes = user;
    (void)err;
    if (position >= hashes->cap) {
        hashes->cap = position * 2 + 64;
        hashes->of = realloc(hashes->of, hashes->cap * sizeof *hashes->of);
        assert_non_null(hashes->of);
    }
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < (size_t)width * height * 3; i++) hash = (hash ^ rgb[i]) * 1099511628211u;
    hashes->of[position] = hash;
    if (position >= hashes->count) hashes->count = position + 1;
    return STOKER_OK;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

static uint64_t *shuffled(size_t count, uint64_t seed)
{
    uint64_t *order = calloc(count + 1, sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)draw(&seed, i);
        uint64_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    return order;
}

/* Compares the frames `order` of one call with the decode in order. */
static void compare(struct stk_decoder *decoder, const struct stk_file *file, const char *path, const uint64_t *order,
                    size_t count, const struct hashes *in_order)
{
    const stoker_frame_list list = {.indices = order, .count = count, .width = SIDE, .height = SIDE};
    struct hashes got = {NULL, 0, 0};
    stoker_error err;
    if (stk_decoder_frames(decoder, file, &list, on_frame, &got, &err) != STOKER_OK)
        fail_msg("%s: %s", path, err.message);
    assert_int_equal(got.count, count);
    for (size_t i = 0; i < count; i++) {
        compared++;
        if (got.of[i] == in_order->of[order[i]]) continue;
        if (wrong++ < 20) print_error("%s: frame %llu is another one\n", path, (unsigned long long)order[i]);
    }
    free(got.of);
}

static void check_clip(const char *path)
{
    static const enum stk_plan_choice choices[] = {STK_PLAN_BY_COST, STK_PLAN_JUMP_ALWAYS, STK_PLAN_JUMP_ONCE};
    struct stk_decoder *decoder = NULL;
    struct stk_file file;
    struct hashes in_order = {NULL, 0, 0};
    const stoker_frame_list all = {.width = SIDE, .height = SIDE};
    stoker_error err;
    if (stk_file_open(path, &file, &err) != STOKER_OK) return;
    assert_int_equal(stk_decoder_create(&decoder, &err), STOKER_OK);
    stk_decoder_set_choice(decoder, STK_PLAN_IN_ORDER);
    if (stk_decoder_frames(decoder, &file, &all, on_frame, &in_order, &err) != STOKER_OK) {
        refused++; /* no video: other tests say which files must open */
    } else {
        size_t count = in_order.count;
        clips++;
        compare(decoder, &file, path, (const uint64_t[]){count - 1}, 1, &in_order); /* in order, too */
        for (size_t c = 0; c < sizeof choices / sizeof choices[0]; c++) {
            stk_decoder_set_choice(decoder, choices[c]);
            stk_decoder_set_keep_bytes(decoder, c == 1 ? 0 : UINT64_MAX); /* packets are read again, too */
            uint64_t *order = shuffled(count, count + c);
            size_t parts = count < PARTS ? count : PARTS;
            for (size_t part = 0; part < parts; part++) {
                size_t from = count * part / parts, to = count * (part + 1) / parts;
                compare(decoder, &file, path, order + from, to - from, &in_order);
            }
            free(order);
        }
    }
    free(in_order.of);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void check_folder(const char *folder)
{
    struct dirent **entries = NULL;
    struct stat facts;
    int count = scandir(folder, &entries, is_visible, alphasort);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        char path[4096];
        assert_true(snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < (int)sizeof path);
        if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
            check_folder(path);
        else if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode))
            check_clip(path);
        free(entries[i]);
    }
    free(entries);
}

static void report(const char *what)
{
    print_message("# %s: %llu frames of %llu clips compared, %llu wrong; %llu files are no video\n", what,
                  (unsigned long long)compared, (unsigned long long)clips, (unsigned long long)wrong,
                  (unsigned long long)refused);
    assert_int_equal(wrong, 0);
    assert_true(clips > 0);
}

static void test_golden_clips(void **state)
{
    (void)state;
    check_folder(STK_GOLDEN_MEDIA);
    report("golden");
}

static void check_made(const char *place_name, const char *script_name)
{
    const char *place = getenv(place_name);
    if (!clips_make(place, getenv(script_name))) STK_SKIP("no ffmpeg program, or without an encoder");
    check_folder(place);
    report(place_name);
}

static void test_awkward_clips(void **state)
{
    (void)state;
    check_made("STOKER_TEST_CLIPS", "STOKER_TEST_MAKE_CLIPS");
}

static void test_every_format(void **state)
{
    (void)state;
    check_made("STOKER_TEST_FORMATS", "STOKER_TEST_MAKE_FORMATS");
}

static void test_named_folders(void **state)
{
    (void)state;
    char folders[8192];
    const char *named = getenv("STOKER_TEST_ACCESS"), *least = getenv("STOKER_TEST_ACCESS_FRAMES");
    if (named) {
        assert_true(snprintf(folders, sizeof folders, "%s", named) < (int)sizeof folders);
        for (char *rest = NULL, *folder = strtok_r(folders, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest))
            check_folder(folder);
        report("with named folders");
    }
    if (least) assert_true(compared >= strtoull(least, NULL, 10));
    if (!named && !least) STK_SKIP("no folders are named by STOKER_TEST_ACCESS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_clips),
        cmocka_unit_test(test_awkward_clips),
        cmocka_unit_test(test_every_format),
        cmocka_unit_test(test_named_folders),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
