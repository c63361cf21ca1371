/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decode plan really decodes: the features of the cost model. A plan sends packets to the decoder, which leaves
 * out those that nothing refers to and nobody wants; they cost next to nothing and are not counted.
 *
 * Which packets nothing refers to is read off the table's times. Encoders decode a picture before others that are
 * presented earlier only in order to refer to it, so a packet that is presented before something decoded earlier, and
 * before everything decoded later, is a leaf. H.264 has one more rule: encoders refer to one picture of a run of
 * two or more, so in a run where the times show none it is the first.
 */
#ifndef STK_MEDIA_DECODE_WORK_H
#define STK_MEDIA_DECODE_WORK_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "media/decode_plan.h"
#include "media/scan.h"
#include "media/transform.h"

struct stk_decode_work {
    uint64_t packets, bytes; /* decoded, not left out */
    uint64_t pixels;         /* of the frames of these packets */
};

/* leaf[packet] becomes 1 for packets that nothing refers to, 0 for the others; room for the table's. */
void stk_decode_work_leaves(const struct stk_packet_table *table, const char *codec, uint8_t *leaf);

/* Of a plan over its table, of a stream with these facts. NO_MEMORY. */
stoker_status stk_decode_work_of_plan(const struct stk_decode_plan *plan, const struct stk_packet_table *table,
                                      const struct stk_av_facts *facts, struct stk_decode_work *out, stoker_error *err);

/* Of the sample that stk_decoder_video_known() would make, without the file. Sets the keys of the scan's packets.
 * `known_frames` as there, 0: none. Errors of the choice of frames (a clip that is too short by rate), NO_MEMORY. */
stoker_status stk_decode_work_of_scan(struct stk_scan *scan, const struct stk_form *form, uint64_t draw,
                                      uint64_t known_frames, struct stk_decode_work *out, stoker_error *err);

#endif
