/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for files of sound: the input is the bytes of a file. What is accepted gives the same bits when it is
 * decoded again, and a window of it is a slice of the whole; what is refused says why.
 */
#include <string.h>
#include <unistd.h>

#include "media/audio.h"
#include "sys/shmem.h"
#include "tests/fuzz/fuzz.h"

/* Time is for many inputs, not for long ones: a packet of a few bytes may claim hours. */
#define SECONDS_MAX 20.0

struct room {
    void *data;
    size_t size;
};

static stoker_status take(void *user, size_t bytes, void **out, stoker_error *err)
{
    struct room *room = user;
    (void)err;
    room->data = malloc(bytes);
    room->size = bytes;
    STK_FUZZ_CHECK(room->data);
    *out = room->data;
    return STOKER_OK;
}

static stoker_status read_sound(const struct stk_file *file, const stoker_audio_spec *spec, struct room *room,
                                stoker_audio_result *result)
{
    struct stk_audio_form form;
    struct stk_listener *listener = NULL;
    stoker_error err = {0};
    *room = (struct room){NULL, 0};
    const struct stk_audio_target target = {NULL, take, room};
    STK_FUZZ_CHECK(stk_audio_form_init(&form, spec, false, &err) == STOKER_OK);
    STK_FUZZ_CHECK(stk_listener_create(&listener, &err) == STOKER_OK);
    stoker_status status = stk_listener_read(listener, file, &form, 1, &target, result, &err);
    stk_listener_destroy(listener);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED || status == STOKER_ERR_LIMIT);
        STK_FUZZ_CHECK(err.message[0] != 0);
    }
    return status;
}

/* The middle third of a sound is the same part of the whole. After damage that a decoder does not notice this holds
 * where packets stand alone; elsewhere places and lengths still do. */
static void compare_part(const struct stk_file *file, const stoker_audio_info *info, const stoker_audio_spec *form,
                         const struct room *whole, const stoker_audio_result *result)
{
    const bool alone = strncmp(info->codec, "pcm_", 4) == 0 || strcmp(info->codec, "flac") == 0;
    stoker_audio_spec spec = *form;
    stoker_audio_result part;
    struct room room;
    const uint64_t start = result->count / 3, count = result->count / 3 + 1;
    spec.start_s = (double)start / result->rate, spec.duration_s = (double)count / result->rate;
    spec.damaged_max = 1;
    if (read_sound(file, &spec, &room, &part) == STOKER_OK) {
        STK_FUZZ_CHECK(part.start == start && part.count == count && part.total == result->total);
        for (uint32_t c = 0; alone && c < result->channels; c++) {
            const uint16_t *in = (const uint16_t *)whole->data + c * result->count + start;
            STK_FUZZ_CHECK(memcmp((const uint16_t *)room.data + c * count, in, part.valid * sizeof *in) == 0);
        }
    }
    free(room.data);
}

static int use(const struct stk_file *file, const stoker_audio_info *info)
{
    stoker_audio_spec spec = STOKER_AUDIO_SPEC_INIT;
    stoker_audio_result first, second;
    struct room whole, again;
    STK_FUZZ_CHECK(info->rate > 0 && info->channels > 0 && info->channels <= 64);
    if (info->duration_s > SECONDS_MAX || info->channels > 8) return 0;
    spec.dtype = STOKER_DTYPE_INT16;
    stoker_status status = read_sound(file, &spec, &whole, &first);
    if (status == STOKER_OK) {
        STK_FUZZ_CHECK(first.count == first.total && whole.size == first.count * first.channels * 2);
        STK_FUZZ_CHECK(info->samples == 0 || info->samples == first.total);
        STK_FUZZ_CHECK(read_sound(file, &spec, &again, &second) == STOKER_OK && again.size == whole.size);
        STK_FUZZ_CHECK(memcmp(whole.data, again.data, whole.size) == 0);
        free(again.data);
        compare_part(file, info, &spec, &whole, &first);
        spec.rate = 8000, spec.channels = 1, spec.dtype = STOKER_DTYPE_FLOAT32;
        spec.start = STOKER_AUDIO_RANDOM, spec.duration_s = 0.01;
        (void)read_sound(file, &spec, &again, &second); /* both answers are right */
        free(again.data);
    }
    free(whole.data);
    return status == STOKER_OK;
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    struct stk_file file = {.fd = -1, .size = size};
    stoker_audio_info info;
    stoker_error err = {0};
    if (size == 0) return 0;
    STK_FUZZ_CHECK(stk_shmem_blob_create(data, size, &file.fd, &err) == STOKER_OK);
    int accepted = 0;
    stoker_status status = stk_audio_facts(&file, false, &info, &err);
    if (status == STOKER_OK) {
        accepted = use(&file, &info);
    } else {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_NOT_FOUND ||
                       status == STOKER_ERR_UNSUPPORTED || status == STOKER_ERR_LIMIT);
        STK_FUZZ_CHECK(err.message[0] != 0);
    }
    (void)close(file.fd); /* memory, not a file: nothing can be lost */
    return accepted;
}
