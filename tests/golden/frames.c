/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames as hashes: see frames.h.
 */
#include "tests/golden/frames.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

static uint64_t hash_of(const uint8_t *data, size_t size)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < size; i++) hash = (hash ^ data[i]) * 1099511628211u;
    return hash;
}

static stoker_status on_frame(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                              stoker_error *err)
{
    (void)err;
    struct frames *frames = user;
    if (position >= frames->capacity) {
        frames->capacity = position * 2 + 64;
        frames->hashes = realloc(frames->hashes, frames->capacity * sizeof *frames->hashes);
        frames->means = realloc(frames->means, frames->capacity * sizeof *frames->means);
        assert_non_null(frames->hashes);
        assert_non_null(frames->means);
    }
    size_t pixels = (size_t)width * height;
    uint64_t sums[3] = {0, 0, 0};
    for (size_t i = 0; i < pixels * 3; i++) sums[i % 3] += rgb[i];
    for (int c = 0; c < 3; c++) frames->means[position][c] = (double)sums[c] / (double)pixels;
    frames->hashes[position] = hash_of(rgb, pixels * 3);
    frames->width = width;
    frames->height = height;
    if (position >= frames->count) frames->count = position + 1;
    return STOKER_OK;
}

stoker_status frames_decode(const char *path, const uint64_t *indices, size_t count, struct frames *out,
                            stoker_error *err)
{
    const stoker_frame_list list = {.indices = indices, .count = count};
    memset(out, 0, sizeof *out);
    return stoker_frames_read(path, &list, on_frame, out, err);
}

stoker_status frames_decode_at(const char *path, const double *seconds, size_t count, struct frames *out,
                               stoker_error *err)
{
    const stoker_frame_list list = {.seconds = seconds, .count = count};
    memset(out, 0, sizeof *out);
    return stoker_frames_read(path, &list, on_frame, out, err);
}

void frames_drop(struct frames *frames)
{
    free(frames->hashes);
    free(frames->means);
    memset(frames, 0, sizeof *frames);
}

static size_t draw(uint64_t *state, size_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*state >> 33) % below;
}

static void check_single(const char *path, const struct frames *in_order, uint64_t index)
{
    struct frames got;
    stoker_error err;
    stoker_status status = frames_decode(path, &index, 1, &got, &err);
    if (status != STOKER_OK) fail_msg("%s: frame %llu: %s", path, (unsigned long long)index, err.message);
    if (got.hashes[0] != in_order->hashes[index])
        fail_msg("%s: frame %llu differs by random access", path, (unsigned long long)index);
    frames_drop(&got);
}

void frames_check_access(const char *path, const struct frames *in_order, size_t rounds)
{
    size_t count = in_order->count;
    uint64_t state = count, *order = calloc(count + 1, sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = draw(&state, i);
        uint64_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < rounds && i < count; i++) check_single(path, in_order, order[i]);

    order[count] = order[0]; /* a repeat */
    struct frames got;
    stoker_error err;
    assert_int_equal(frames_decode(path, order, count + 1, &got, &err), STOKER_OK);
    assert_int_equal(got.count, count + 1);
    for (size_t i = 0; i <= count; i++) assert_true(got.hashes[i] == in_order->hashes[order[i]]);
    frames_drop(&got);
    free(order);
}
