/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for image files: the input is the bytes of a file. What is accepted must also be probed, keep its size,
 * and give the same bytes when it is decoded again; what is refused whole may be accepted in part, marked so.
 */
#include <string.h>

#include "media/image.h"
#include "media/image_head.h"
#include "tests/fuzz/fuzz.h"

/* Small: time is for many inputs, not for large ones. */
#define PIXELS_MAX 65536u

static stoker_status decode(const stoker_image_bytes *bytes, const stoker_image_spec *spec, size_t size, uint8_t *dst,
                            stoker_image_result *result)
{
    stoker_error err = {0};
    stoker_status status = stoker_image_decode(bytes, spec, dst, size, result, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(err.message[0] != 0);
    }
    return status;
}

static int use(const stoker_image_bytes *bytes, const stoker_image_info *info)
{
    stoker_image_spec keep = STOKER_IMAGE_SPEC_INIT, small = STOKER_IMAGE_SPEC_INIT;
    stoker_image_result result = {0}, again = {0};
    keep.resize = STOKER_IMAGE_KEEP, keep.pixels_max = PIXELS_MAX, keep.alpha = STOKER_IMAGE_ALPHA_COMPOSITE;
    size_t size = stoker_image_sample_bytes(&keep, info);
    STK_FUZZ_CHECK(size == (size_t)info->width * info->height * 3);
    uint8_t *dst = malloc(size), *second = malloc(size);
    STK_FUZZ_CHECK(dst && second);
    stoker_status whole = decode(bytes, &keep, size, dst, &result);
    if (whole == STOKER_OK) STK_FUZZ_CHECK(!result.partial && result.width == info->width);
    keep.partial = STOKER_IMAGE_PARTIAL_ACCEPT;
    stoker_status part = decode(bytes, &keep, size, second, &again);
    if (whole == STOKER_OK) STK_FUZZ_CHECK(part == STOKER_OK && !again.partial && memcmp(dst, second, size) == 0);
    if (whole != STOKER_OK && part == STOKER_OK) {
        STK_FUZZ_CHECK(again.partial == 1);
        STK_FUZZ_CHECK(decode(bytes, &keep, size, dst, &again) == STOKER_OK && memcmp(dst, second, size) == 0);
    }
    free(dst);
    free(second);

    float values[5 * 7 * 3];
    small.width = 7, small.height = 5, small.dtype = STOKER_DTYPE_FLOAT32, small.mode = STOKER_IMAGE_FAST;
    small.filter = STOKER_IMAGE_BICUBIC, small.pixels_max = PIXELS_MAX, small.partial = STOKER_IMAGE_PARTIAL_MARK;
    (void)decode(bytes, &small, sizeof values, (uint8_t *)values, &again); /* both answers are right */
    return whole == STOKER_OK;
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    stoker_image_info info;
    stoker_status status = stoker_image_probe_bytes(data, size, &info, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT && err.message[0] != 0);
        return 0;
    }
    STK_FUZZ_CHECK(info.width > 0 && info.height > 0 && info.orientation >= 1 && info.orientation <= 8);
    if ((uint64_t)info.width * info.height > PIXELS_MAX) return 0;
    const stoker_image_bytes bytes = {data, size};
    if (stk_image_available(info.format)) return use(&bytes, &info);
    struct stk_image_head head; /* without its decoder: accepted if nothing is missing */
    return stk_image_head_read(data, size, &head, &err) == STOKER_OK && head.whole;
}
