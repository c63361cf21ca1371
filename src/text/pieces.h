/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of text and the ids that a tokenizer gave for them: a hash table within a bound of memory. Used in rounds: the
 * pieces of a block are looked up, the unknown ones are learned from the tokenizer, then the ids of all are read.
 * References live for one round. When the bound is passed, the next round begins with an empty table: the frequent
 * pieces of the text are back at once.
 */
#ifndef STK_TEXT_PIECES_H
#define STK_TEXT_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#include "text/list.h"

struct stk_piece {
    uint64_t hash;
    size_t text_at, ids_at; /* in the lists of the bank */
    uint32_t size;
    uint32_t id_count; /* STK_PIECE_UNKNOWN until it is learned */
};
#define STK_PIECE_UNKNOWN UINT32_MAX

struct stk_piece_bank {
    struct stk_list pieces; /* struct stk_piece */
    struct stk_list text;   /* char */
    struct stk_list ids;    /* int32_t */
};

struct stk_pieces {
    size_t bytes_max;
    struct stk_piece_bank kept;
    struct stk_piece_bank passing; /* too long to be worth keeping; gone with the round */
    uint64_t *slots;               /* high half: of the hash; low half: number of the kept piece + 1; 0: free */
    size_t slot_count;
    struct stk_list unknown; /* uint32_t: references, in the order of first sight */
    size_t learned_count;
    uint64_t lookups, misses, resets;
};

/* `bytes_max`: memory of the table, checked between rounds. */
stoker_status stk_pieces_init(struct stk_pieces *pieces, size_t bytes_max, stoker_error *err);
void stk_pieces_fini(struct stk_pieces *pieces);

/* Begins a round: references of the last one are void. */
void stk_pieces_begin(struct stk_pieces *pieces);
/* A reference to a piece; an unknown one joins the list of unknown ones, once a round. Without `keep` the piece is not
 * looked for, and always unknown. NO_MEMORY, LIMIT. */
stoker_status stk_pieces_find(struct stk_pieces *pieces, const char *text, size_t size, bool keep,
                              uint32_t *out_reference, stoker_error *err);
/* Unknown piece `index` of this round, and its text. */
uint32_t stk_pieces_unknown(const struct stk_pieces *pieces, size_t index);
const char *stk_pieces_text(const struct stk_pieces *pieces, uint32_t reference, size_t *out_size);
/* Gives the ids of a piece. NO_MEMORY, LIMIT. */
stoker_status stk_pieces_learn(struct stk_pieces *pieces, uint32_t reference, const int32_t *ids, size_t count,
                               stoker_error *err);
/* The ids of a piece; NULL if it was not learned. */
const int32_t *stk_pieces_ids(const struct stk_pieces *pieces, uint32_t reference, size_t *out_count);

#endif
