/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to token ids, a block of JSON lines at a time: what `stoker preprocess` does between reading and writing. The
 * tokenizer itself stays the caller's: the encoder finds the texts, cuts them into pieces where the tokenizer's rules
 * allow it, remembers the ids of pieces, and asks only for those that it has not seen.
 *
 * A round: feed a block; learn the ids of every unknown piece; take the tokens of each key.
 */
#ifndef STOKER_TEXT_H
#define STOKER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoker_text_encoder stoker_text_encoder;

/** How a text becomes ids. */
typedef enum stoker_text_rule {
    STOKER_TEXT_WHOLE = 0,  /**< each text is one piece */
    STOKER_TEXT_SPACES = 1, /**< cut before a single space between two characters that are no space */
    STOKER_TEXT_WORDS = 2,  /**< and where every byte-level pre-tokenizer begins a new word (decision 0136) */
    STOKER_TEXT_BYTES = 3,  /**< no tokenizer: the bytes of the UTF-8 text are the ids */
    STOKER_TEXT_NUMBERS = 4 /**< no tokenizer: the text holds decimal ids, separated by spaces */
} stoker_text_rule;

typedef struct stoker_text_options {
    uint32_t struct_size;
    stoker_text_rule rule;
    const char *const *keys; /**< [key_count], UTF-8: the members of each line's object that hold texts */
    size_t key_count;
    int wide;              /**< tokens are int32; else uint16 */
    int64_t id_limit;      /**< ids are below it; 0: whatever the element type holds */
    int64_t eod;           /**< put after every document that has a token; -1: not */
    const int32_t *prefix; /**< [prefix_count]: put before each text's own ids */
    size_t prefix_count;
    const int32_t *suffix; /**< [suffix_count]: put after them */
    size_t suffix_count;
    const char *guard; /**< WORDS: bytes that begin a special token; stretches that have one are cut less */
    size_t guard_count;
    size_t cache_bytes; /**< memory for remembered pieces; 0: 128 MiB */
} stoker_text_options;

#define STOKER_TEXT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(stoker_text_options), STOKER_TEXT_WHOLE, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0                            \
    }

/** Make an encoder.
 *
 * Owns:    options are borrowed for the call. On success *out_encoder is the caller's, who calls
 *          stoker_text_encoder_destroy().
 * Threads: any; an encoder is used by one thread at a time.
 * Errors:  INVALID_ARGUMENT, NO_MEMORY.
 */
STOKER_API stoker_status stoker_text_encoder_create(const stoker_text_options *options,
                                                    stoker_text_encoder **out_encoder, stoker_error *err);

/** Free an encoder. NULL is allowed.
 *
 * Owns:    takes `encoder`.
 * Threads: as stoker_text_encoder_create().
 * Errors:  none.
 */
STOKER_API void stoker_text_encoder_destroy(stoker_text_encoder *encoder);

/** A line that cannot be used. */
typedef struct stoker_text_fault {
    uint64_t line;     /**< in the block, from 0 */
    uint64_t begin;    /**< byte of the block at which the line begins */
    uint64_t offset;   /**< byte of the block at which the fault was seen */
    const char *cause; /**< static text */
    int64_t key;       /**< number of the key that it is about; -1: none */
} stoker_text_fault;

#define STOKER_TEXT_FAULTS_MAX 16u

/** What a block holds. */
typedef struct stoker_text_facts {
    uint64_t lines;
    uint64_t documents;                               /**< lines that can be used; each is one document of every key */
    uint64_t unknown;                                 /**< pieces whose ids must be learned now */
    uint64_t fault_count;                             /**< lines that cannot be used; they are left out */
    stoker_text_fault faults[STOKER_TEXT_FAULTS_MAX]; /**< the first of them */
} stoker_text_facts;

/** Begin a round with a block of whole lines (the last one may lack its newline).
 *
 * Owns:    `block` is borrowed until the next round begins.
 * Threads: as stoker_text_encoder_create().
 * Errors:  NO_MEMORY, LIMIT (a line or a block is too long).
 */
STOKER_API stoker_status stoker_text_encoder_feed(stoker_text_encoder *encoder, const char *block, size_t size,
                                                  stoker_text_facts *out_facts, stoker_error *err);

/** The text of unknown piece `index` of this round, UTF-8, not terminated.
 *
 * Owns:    the result is the encoder's, until the next call on it that is not this one.
 * Threads: as stoker_text_encoder_create().
 * Errors:  none (NULL past the last).
 */
STOKER_API const char *stoker_text_encoder_unknown(const stoker_text_encoder *encoder, size_t index, size_t *out_size);

/** Give the ids of unknown piece `index`.
 *
 * Owns:    `ids` is borrowed for the call.
 * Threads: as stoker_text_encoder_create().
 * Errors:  INVALID_ARGUMENT (an id out of range, naming it), NO_MEMORY.
 */
STOKER_API stoker_status stoker_text_encoder_learn(stoker_text_encoder *encoder, size_t index, const int32_t *ids,
                                                   size_t count, stoker_error *err);

/** The tokens of one key in a block. Texts without a token are left out; a document without a token has no sequence. */
typedef struct stoker_text_tokens {
    const void *tokens; /**< [token_count] of the element type */
    size_t token_count;
    const int32_t *lengths; /**< [sequence_count] in tokens, the end-of-document token in the last one */
    size_t sequence_count;
    const int64_t *documents; /**< [document_count]: sequences up to the end of each document */
    size_t document_count;
} stoker_text_tokens;

/** The tokens of key number `key`, once every unknown piece is learned.
 *
 * Owns:    the arrays are the encoder's, until the next call of this function or the next round.
 * Threads: as stoker_text_encoder_create().
 * Errors:  WRONG_STATE (a piece is not learned), INVALID_ARGUMENT (no such key), LIMIT, NO_MEMORY.
 */
STOKER_API stoker_status stoker_text_encoder_take(stoker_text_encoder *encoder, size_t key,
                                                  stoker_text_tokens *out_tokens, stoker_error *err);

/** Counters since the encoder was made. */
typedef struct stoker_text_counters {
    uint64_t pieces;  /**< looked up */
    uint64_t unknown; /**< given to the tokenizer */
    uint64_t resets;  /**< times that the table was full and emptied */
} stoker_text_counters;

/** Counters of an encoder.
 *
 * Owns:    nothing.
 * Threads: as stoker_text_encoder_create().
 * Errors:  none.
 */
STOKER_API void stoker_text_encoder_get_counters(const stoker_text_encoder *encoder,
                                                 stoker_text_counters *out_counters);

#ifdef __cplusplus
}
#endif

#endif
