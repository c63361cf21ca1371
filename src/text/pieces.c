/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of pieces: see pieces.h. Open addressing, linear probing, at most half full.
 */
#include "text/pieces.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

#define PASSING UINT32_C(0x80000000) /* bit of a reference */
enum { SLOTS_FIRST = 1 << 12 };

static stoker_status no_memory(stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the table of pieces");
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two multipliers without a pattern: the fractions of the square roots of 2 and 3. */
static uint64_t hash_of(const char *text, size_t size)
{
    const uint64_t first = UINT64_C(0x6a09e667f3bcc909), second = UINT64_C(0xbb67ae8584caa73b);
    uint64_t hash = size ^ second, word = 0;
    for (; size >= sizeof word; size -= sizeof word, text += sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = fold(hash ^ word, first);
    }
    word = 0;
    memcpy(&word, text, size);
    return fold(hash ^ word ^ second, first ^ hash);
}

stoker_status stk_pieces_init(struct stk_pieces *pieces, size_t bytes_max, stoker_error *err)
{
    memset(pieces, 0, sizeof *pieces);
    pieces->bytes_max = bytes_max;
    pieces->slot_count = SLOTS_FIRST;
    pieces->slots = calloc(pieces->slot_count, sizeof *pieces->slots);
    return pieces->slots ? STOKER_OK : no_memory(err);
}

static void bank_fini(struct stk_piece_bank *bank)
{
    stk_list_fini(&bank->pieces);
    stk_list_fini(&bank->text);
    stk_list_fini(&bank->ids);
}

static void bank_empty(struct stk_piece_bank *bank) { bank->pieces.count = bank->text.count = bank->ids.count = 0; }

void stk_pieces_fini(struct stk_pieces *pieces)
{
    bank_fini(&pieces->kept);
    bank_fini(&pieces->passing);
    free(pieces->slots);
    stk_list_fini(&pieces->unknown);
    memset(pieces, 0, sizeof *pieces);
}

static size_t bytes_used(const struct stk_pieces *pieces)
{
    return pieces->kept.pieces.count * sizeof(struct stk_piece) + pieces->kept.text.count +
           pieces->kept.ids.count * sizeof(int32_t) + pieces->slot_count * sizeof *pieces->slots;
}

void stk_pieces_begin(struct stk_pieces *pieces)
{
    bool all_learned = pieces->learned_count == pieces->unknown.count; /* not so after a round that failed */
    bank_empty(&pieces->passing);
    pieces->unknown.count = pieces->learned_count = 0;
    if (all_learned && bytes_used(pieces) <= pieces->bytes_max) return;
    bank_empty(&pieces->kept);
    memset(pieces->slots, 0, pieces->slot_count * sizeof *pieces->slots);
    pieces->resets++;
}

static struct stk_piece *kept_piece(const struct stk_pieces *pieces, size_t number)
{
    return (struct stk_piece *)pieces->kept.pieces.data + number;
}

static void put(uint64_t *slots, size_t slot_count, uint64_t hash, size_t number)
{
    size_t at = hash & (slot_count - 1);
    while (slots[at] != 0) at = (at + 1) & (slot_count - 1);
    slots[at] = (hash >> 32 << 32) | (number + 1);
}

static bool grow(struct stk_pieces *pieces)
{
    size_t slot_count = 2 * pieces->slot_count;
    uint64_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < pieces->kept.pieces.count; i++) put(slots, slot_count, kept_piece(pieces, i)->hash, i);
    free(pieces->slots);
    pieces->slots = slots;
    pieces->slot_count = slot_count;
    return true;
}

/* Adds an unknown piece to a bank, and to the list of unknown ones as `reference`. */
static stoker_status add(struct stk_pieces *pieces, struct stk_piece_bank *bank, const char *text, size_t size,
                         uint64_t hash, uint32_t reference, stoker_error *err)
{
    if (bank->pieces.count >= STK_PIECES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "more than %u pieces of text at once", STK_PIECES_MAX);
    struct stk_piece *piece = stk_list_room(&bank->pieces, 1, sizeof *piece);
    char *copy = stk_list_room(&bank->text, size, 1);
    uint32_t *unknown = stk_list_room(&pieces->unknown, 1, sizeof *unknown);
    if (!piece || !copy || !unknown) return no_memory(err);
    memcpy(copy, text, size);
    *piece = (struct stk_piece){hash, bank->text.count, 0, (uint32_t)size, STK_PIECE_UNKNOWN};
    *unknown = reference;
    bank->pieces.count++;
    bank->text.count += size;
    pieces->unknown.count++;
    pieces->misses++;
    return STOKER_OK;
}

stoker_status stk_pieces_find(struct stk_pieces *pieces, const char *text, size_t size, bool keep,
                              uint32_t *out_reference, stoker_error *err)
{
    pieces->lookups++;
    if (size > STK_JSON_LINE_BYTES_MAX) return stk_fail(err, STOKER_ERR_LIMIT, "a text of %zu bytes", size);
    if (!keep) {
        *out_reference = (uint32_t)pieces->passing.pieces.count | PASSING;
        return add(pieces, &pieces->passing, text, size, 0, *out_reference, err);
    }
    uint64_t hash = hash_of(text, size);
    size_t mask = pieces->slot_count - 1;
    for (size_t at = hash & mask; pieces->slots[at] != 0; at = (at + 1) & mask) {
        if ((pieces->slots[at] ^ hash) >> 32 != 0) continue;
        uint32_t number = (uint32_t)pieces->slots[at] - 1;
        const struct stk_piece *piece = kept_piece(pieces, number);
        if (piece->size == size && memcmp((char *)pieces->kept.text.data + piece->text_at, text, size) == 0) {
            *out_reference = number;
            return STOKER_OK;
        }
    }
    size_t number = pieces->kept.pieces.count;
    if (2 * (number + 1) > pieces->slot_count && !grow(pieces)) return no_memory(err);
    STK_TRY(add(pieces, &pieces->kept, text, size, hash, (uint32_t)number, err));
    put(pieces->slots, pieces->slot_count, hash, number);
    *out_reference = (uint32_t)number;
    return STOKER_OK;
}

static const struct stk_piece_bank *bank_of(const struct stk_pieces *pieces, uint32_t reference)
{
    return (reference & PASSING) != 0 ? &pieces->passing : &pieces->kept;
}

static struct stk_piece *piece_of(const struct stk_pieces *pieces, uint32_t reference)
{
    const struct stk_piece_bank *bank = bank_of(pieces, reference);
    STK_ASSERT((reference & ~PASSING) < bank->pieces.count);
    return (struct stk_piece *)bank->pieces.data + (reference & ~PASSING);
}

uint32_t stk_pieces_unknown(const struct stk_pieces *pieces, size_t index)
{
    STK_ASSERT(index < pieces->unknown.count);
    return ((const uint32_t *)pieces->unknown.data)[index];
}

const char *stk_pieces_text(const struct stk_pieces *pieces, uint32_t reference, size_t *out_size)
{
    const struct stk_piece *piece = piece_of(pieces, reference);
    *out_size = piece->size;
    return (const char *)bank_of(pieces, reference)->text.data + piece->text_at;
}

stoker_status stk_pieces_learn(struct stk_pieces *pieces, uint32_t reference, const int32_t *ids, size_t count,
                               stoker_error *err)
{
    struct stk_piece *piece = piece_of(pieces, reference);
    struct stk_piece_bank *bank = (reference & PASSING) != 0 ? &pieces->passing : &pieces->kept;
    if (count >= STK_PIECE_UNKNOWN) return stk_fail(err, STOKER_ERR_LIMIT, "a text of %zu tokens", count);
    int32_t *copy = stk_list_room(&bank->ids, count, sizeof *copy);
    if (!copy) return no_memory(err);
    if (count > 0) memcpy(copy, ids, count * sizeof *ids);
    pieces->learned_count += piece->id_count == STK_PIECE_UNKNOWN;
    piece->ids_at = bank->ids.count;
    piece->id_count = (uint32_t)count;
    bank->ids.count += count;
    return STOKER_OK;
}

const int32_t *stk_pieces_ids(const struct stk_pieces *pieces, uint32_t reference, size_t *out_count)
{
    const struct stk_piece *piece = piece_of(pieces, reference);
    *out_count = piece->id_count;
    if (piece->id_count == STK_PIECE_UNKNOWN) return NULL;
    return (const int32_t *)bank_of(pieces, reference)->ids.data + piece->ids_at;
}
