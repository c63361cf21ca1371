/* SPDX-License-Identifier: Apache-2.0
 *
 * See patches.h. Lines of patches are converted into scratch memory that stays in the cache, whole lines at a time, and
 * cut from there: the destination is written from front to back, in pieces of one channel of one patch.
 */
#include "media/patches.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "media/filter.h"

void stk_patch_room_fini(struct stk_patch_room *room)
{
    free(room->data);
    memset(room, 0, sizeof *room);
}

static stoker_status reserve(struct stk_patch_room *room, size_t size, stoker_error *err)
{
    if (size <= room->size) return STOKER_OK;
    free(room->data);
    room->data = malloc(size);
    room->size = room->data ? size : 0;
    return room->data ? STOKER_OK
                      : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for lines of patches (%zu bytes)", size);
}

/* Copies `lines` pieces of `piece` bytes, `from_stride` apart, to memory without gaps. */
static inline void cut_pieces(const uint8_t *from, size_t from_stride, uint8_t *to, uint32_t lines, size_t piece)
{
    for (uint32_t y = 0; y < lines; y++) memcpy(to + y * piece, from + y * from_stride, piece);
}

/* The same with the sizes of the common models known to the compiler. */
static void cut_patch(const uint8_t *from, size_t from_stride, uint8_t *to, uint32_t lines, size_t piece)
{
    switch (piece) {
    case 14: cut_pieces(from, from_stride, to, lines, 14); break;
    case 16: cut_pieces(from, from_stride, to, lines, 16); break;
    case 28: cut_pieces(from, from_stride, to, lines, 28); break;
    case 32: cut_pieces(from, from_stride, to, lines, 32); break;
    case 56: cut_pieces(from, from_stride, to, lines, 56); break;
    case 64: cut_pieces(from, from_stride, to, lines, 64); break;
    default: cut_pieces(from, from_stride, to, lines, piece);
    }
}

/* One line of patches of a frame: `lines` holds its values, channel by channel, p lines each. */
static void cut_line(const struct stk_patch_writer *writer, const uint8_t *lines, uint32_t frame, uint32_t row,
                     uint8_t *dst)
{
    const stoker_patch_rule *rule = &writer->rule;
    const stoker_patch_plan *plan = &writer->plan;
    const size_t value = writer->values->value_bytes, piece = rule->patch * value, line = plan->width * value;
    const size_t area = (size_t)rule->patch * piece, patch = plan->row_values * value;
    const uint32_t first = frame % rule->temporal;
    const uint32_t end = frame + 1 == writer->frames ? rule->temporal : first + 1;
    const uint32_t merge = rule->merge, wide = plan->grid_w / merge;
    const size_t group = ((size_t)(frame / rule->temporal) * (plan->grid_h / merge) + row / merge) * wide;
    for (uint32_t column = 0; column < plan->grid_w; column++) {
        size_t place = ((group + column / merge) * merge + row % merge) * merge + column % merge;
        for (uint32_t channel = 0; channel < 3; channel++) {
            const uint8_t *from = lines + channel * rule->patch * line + column * piece;
            for (uint32_t t = first; t < end; t++)
                cut_patch(from, line, dst + place * patch + (channel * rule->temporal + t) * area, rule->patch, piece);
        }
    }
}

stoker_status stk_patches_store(const struct stk_patch_writer *writer, uint32_t frame, const uint8_t *rgb,
                                size_t stride, struct stk_patch_room *room, void *dst, stoker_error *err)
{
    const stoker_patch_plan *plan = &writer->plan;
    const uint32_t patch = writer->rule.patch, width = plan->width;
    const size_t value = writer->values->value_bytes, plane = (size_t)patch * width;
    STK_ASSERT(frame < writer->frames);
    STK_ASSERT((writer->frames - 1) / writer->rule.temporal < plan->grid_t);
    /* A form of one line of patches: its planes are what stk_form_store() writes one after the other. */
    struct stk_form form = *writer->values;
    form.frames = 1, form.width = width, form.height = patch;
    form.layout = STOKER_LAYOUT_TCHW;
    form.sample_bytes = plane * 3 * value;
    STK_TRY(reserve(room, plane * 3 * (value + 1), err));
    uint8_t *split = room->data + plane * 3 * value;
    uint8_t *const planes[3] = {split, split + plane, split + 2 * plane};
    const struct stk_planes from = {{planes[0], planes[1], planes[2]}, width};
    for (uint32_t row = 0; row < plan->grid_h; row++) {
        const struct stk_filtered lines = {rgb + (size_t)row * patch * stride, stride};
        stk_filter_split(&lines, width, patch, planes);
        stk_form_store(&form, &from, room->data, 0);
        cut_line(writer, room->data, frame, row, dst);
    }
    return STOKER_OK;
}
