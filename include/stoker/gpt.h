/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT samples over indexed datasets, as Megatron-LM orders them: document, sample and shuffle index, their cache files,
 * and blends of several datasets. The same options give the same bytes as Megatron-LM, on disk and in every item;
 * docs/reference/token-index.md describes the rules.
 */
#ifndef STOKER_GPT_H
#define STOKER_GPT_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------------------------------- arrays */

/** Element types of index arrays, as NumPy names them. */
typedef enum stoker_index_dtype {
    STOKER_INDEX_INT16 = 1,  /**< '<i2': dataset_index */
    STOKER_INDEX_INT32 = 2,  /**< '<i4': document_index, sample_index */
    STOKER_INDEX_UINT32 = 3, /**< '<u4': shuffle_index */
    STOKER_INDEX_INT64 = 4   /**< '<i8': sample_index, shuffle_index, dataset_sample_index */
} stoker_index_dtype;

/** A read-only array that belongs to the object it came from: row-major, `columns` is 1 or 2. */
typedef struct stoker_index_array {
    const void *data;
    uint64_t rows;
    uint32_t columns;
    stoker_index_dtype dtype;
} stoker_index_array;

/** Where saved arrays are kept: FOLDER/STEM-NAME.npy and FOLDER/STEM-description.txt. */
typedef struct stoker_index_cache {
    const char *folder;      /**< created with its parents; NULL: nothing is kept, arrays live in memory */
    const char *stem;        /**< "HASH-GPTDataset-train" */
    const char *description; /**< text of the description file */
    int assume_hit;          /**< fast load: the files are there; none is looked for, nothing is built */
    int may_build;           /**< 0: a miss is NOT_FOUND (another rank builds) */
    uint64_t wait_ns;        /**< how long to wait for a builder elsewhere; 0: as long as it lives */
} stoker_index_cache;

/* --------------------------------------------------------------------------------------------------------- gpt */

typedef struct stoker_gpt_dataset stoker_gpt_dataset;

typedef struct stoker_gpt_options {
    uint32_t struct_size;
    uint32_t random_seed;
    uint64_t sequence_length;
    uint64_t samples;          /**< requested; UINT64_MAX: one epoch */
    uint64_t first_sequence;   /**< the split: sequences [first, end) of the dataset */
    uint64_t end_sequence;     /**< UINT64_MAX: all of them */
    const char *split;         /**< "train", "valid", "test": for messages */
    int no_extra_token;        /**< add_extra_token_to_sequence is off */
    int keep_partial;          /**< validation with drop_last_partial_validation_sequence off */
    int defer;                 /**< map the arrays at the first item (or stoker_gpt_dataset_prepare()) */
    stoker_index_cache cache;
} stoker_gpt_options;

#define STOKER_GPT_OPTIONS_INIT                                                                                        \
    { sizeof(stoker_gpt_options), 0, 0, UINT64_MAX, 0, UINT64_MAX, 0, 0, 0, 0, { 0, 0, 0, 0, 1, 0 } }

/** Build or load the index of a split and open it as a dataset of samples.
 *
 * Any number of processes on any number of hosts may do this at once with one folder: one builds, under a lock file,
 * and publishes by write, sync and rename; the others wait and load. Damaged or partial files are noticed and built
 * again.
 *
 * Owns:    options are borrowed; the dataset is referenced (stoker_dataset_ref()). On success *out_gpt is the caller's.
 * Threads: any; the result is immutable but for deferred mapping, which is synchronised.
 * Errors:  INVALID_ARGUMENT (naming the split: no tokens in it, a last row before its document's start, sequence_length
 *          0), NOT_FOUND (miss, and may_build is 0), CORRUPT (assumed hit on bad files, naming file, field and value),
 *          IO (the folder cannot be written), NO_SPACE, NO_MEMORY, TIMEOUT.
 */
STOKER_API stoker_status stoker_gpt_dataset_open(stoker_dataset *dataset, const stoker_gpt_options *options,
                                                 stoker_gpt_dataset **out_gpt, stoker_error *err);

/** The same over made-up sequences (Megatron-LM's mock data): 100,000 of them, sequence i holds 1, 2, 3 ... modulo
 * `vocabulary` and ends with `eod`; lengths are NumPy's default_rng(0).integers(1, 4096).
 *
 * Owns:    as stoker_gpt_dataset_open().
 * Threads: any.
 * Errors:  as stoker_gpt_dataset_open().
 */
STOKER_API stoker_status stoker_gpt_dataset_open_mock(int64_t vocabulary, int64_t eod,
                                                      const stoker_gpt_options *options, stoker_gpt_dataset **out_gpt,
                                                      stoker_error *err);

/** One more reference; each is returned by stoker_gpt_dataset_close().
 *
 * Owns:    the result is `gpt`, shared.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API stoker_gpt_dataset *stoker_gpt_dataset_ref(stoker_gpt_dataset *gpt);

/** Return a reference. NULL is allowed.
 *
 * Owns:    takes the reference.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_gpt_dataset_close(stoker_gpt_dataset *gpt);

/** Map what was deferred; calls after the first cost nothing.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  as stoker_gpt_dataset_open() on an assumed hit.
 */
STOKER_API stoker_status stoker_gpt_dataset_prepare(stoker_gpt_dataset *gpt, stoker_error *err);

/** Number of samples. With `defer` it is computed, not looked up (Megatron-LM's rule; can be -1 for no tokens).
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API int64_t stoker_gpt_dataset_count(const stoker_gpt_dataset *gpt);

/** The index arrays; prepares a deferred dataset.
 *
 * Owns:    the arrays are the dataset's. NULL outputs are passed over.
 * Threads: any.
 * Errors:  as stoker_gpt_dataset_prepare().
 */
STOKER_API stoker_status stoker_gpt_dataset_arrays(stoker_gpt_dataset *gpt, stoker_index_array *out_document,
                                                   stoker_index_array *out_sample, stoker_index_array *out_shuffle,
                                                   stoker_error *err);

/** Where the text of a sample goes. */
typedef struct stoker_gpt_text {
    int64_t *text;
    uint64_t count;
    int64_t *documents;
    int64_t *lengths;
    uint64_t part_max, parts;
} stoker_gpt_text;

/** The text of sample `index` (position after shuffling): its documents' parts, one after another, before any padding.
 *
 * Owns:    text has room for sequence_length + 1 elements, `count` of which are written. The parts' sequence numbers
 *          and lengths go to documents and lengths if given (room for `part_max` each); `parts` is their true number,
 *          which may exceed part_max.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (index), CORRUPT, IO, UNAVAILABLE, TIMEOUT.
 */
STOKER_API stoker_status stoker_gpt_dataset_text(stoker_gpt_dataset *gpt, uint64_t index, stoker_gpt_text *out_text,
                                                 stoker_error *err);

/** What an item is made of; the meaning is Megatron-LM's, the loss mask its first-fetch value. */
typedef struct stoker_gpt_form {
    uint32_t struct_size;
    int64_t pad;                 /**< -1: the tokenizer has none */
    int64_t eod;
    int reset_position_ids;
    int reset_attention_mask;
    int eod_mask_loss;
    int attention_mask;          /**< create_attention_mask; not with `documents` */
    int documents;               /**< inter_document_masking: cu_seqlens and max_seqlen */
} stoker_gpt_form;

#define STOKER_GPT_FORM_INIT { sizeof(stoker_gpt_form), -1, 0, 0, 0, 0, 0, 0 }

/** Destination of one item; S is sequence_length. NULL members are not wanted, but tokens must be given, and cu_seqlens
 * with `documents`. */
typedef struct stoker_gpt_item {
    int64_t *tokens;       /**< [S] */
    int64_t *labels;       /**< [S] */
    float *loss_mask;      /**< [S] */
    int64_t *position_ids; /**< [S] */
    uint8_t *attention_mask; /**< [S, S], 1 = masked */
    int32_t *cu_seqlens;   /**< [S + 1], padded with S */
    int32_t *max_seqlen;   /**< [1] */
} stoker_gpt_item;

/** Make one item. INT64_MIN as index is the padding item: item 0 with a zero loss mask. Negative ones count from the
 * end.
 *
 * Owns:    the destinations are borrowed.
 * Threads: any.
 * Errors:  as stoker_gpt_dataset_text().
 */
STOKER_API stoker_status stoker_gpt_dataset_item(stoker_gpt_dataset *gpt, const stoker_gpt_form *form, int64_t index,
                                                 const stoker_gpt_item *out_item, stoker_error *err);

/** Make `count` items: member m of item i goes to out_first.m + i * its size.
 *
 * Owns:    indices are borrowed; destinations hold count items.
 * Threads: any.
 * Errors:  as stoker_gpt_dataset_text(), naming the index.
 */
STOKER_API stoker_status stoker_gpt_dataset_batch(stoker_gpt_dataset *gpt, const stoker_gpt_form *form,
                                                  const int64_t *indices, uint64_t count,
                                                  const stoker_gpt_item *out_first, stoker_error *err);

/* ----------------------------------------------------------------------------------------------------------- blends */

typedef struct stoker_blend_index stoker_blend_index;

typedef struct stoker_blend_options {
    uint32_t struct_size;
    uint32_t datasets;
    const double *weights;  /**< [datasets], each > 0, used as they are (normalise them first); sized blends */
    uint64_t size;          /**< samples of a sized blend */
    const uint64_t *sizes;  /**< exhaustive blend: [datasets] samples of each, `weights` and `size` unused */
    const uint64_t *limits; /**< [datasets] samples that each has: an index that is built and takes more of one is
                                 refused (LIMIT) before it is kept; NULL: not checked */
    int defer;
    stoker_index_cache cache;
} stoker_blend_options;

#define STOKER_BLEND_OPTIONS_INIT { sizeof(stoker_blend_options), 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 1, 0 } }

/** Build or load the index of a blend, with the rules of stoker_gpt_dataset_open() about caches.
 *
 * Owns:    options are borrowed. On success *out_blend is the caller's, who calls stoker_blend_index_close().
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (32,767 datasets or more, a weight that is not above 0, naming it), LIMIT (more samples of
 *          a dataset than `limits` allows, naming it), and those of caches.
 */
STOKER_API stoker_status stoker_blend_index_open(const stoker_blend_options *options, stoker_blend_index **out_blend,
                                                 stoker_error *err);

/** The arrays dataset_index and dataset_sample_index; maps what was deferred. `out_built` tells if they were made now
 * (1) or loaded (0). NULL outputs are passed over.
 *
 * Owns:    the arrays are the blend's.
 * Threads: any.
 * Errors:  those of caches.
 */
STOKER_API stoker_status stoker_blend_index_arrays(stoker_blend_index *blend, stoker_index_array *out_dataset,
                                                   stoker_index_array *out_sample, int *out_built, stoker_error *err);

/** How many samples the blend takes of each dataset; maps what was deferred.
 *
 * Owns:    `out_counts` has one entry for each dataset.
 * Threads: any.
 * Errors:  CORRUPT (a number in dataset_index that is no dataset), NO_MEMORY, and those of caches.
 */
STOKER_API stoker_status stoker_blend_index_counts(stoker_blend_index *blend, uint64_t *out_counts, stoker_error *err);

/** Free a blend. NULL is allowed.
 *
 * Owns:    takes `blend`.
 * Threads: not while another thread uses it.
 * Errors:  none.
 */
STOKER_API void stoker_blend_index_close(stoker_blend_index *blend);

/** Normalise weights as NumPy does it (pairwise sum in float64, then division).
 *
 * Owns:    both arrays have `count` entries; they may be the same.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_weights_normalize(const double *weights, size_t count, double *out_weights);

/** NumPy's RandomState(seed).shuffle() of 0 .. count - 1, written as `dtype` (INT32, UINT32 or INT64).
 *
 * Owns:    `out` holds `count` elements.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (dtype, or a count that it cannot hold).
 */
STOKER_API stoker_status stoker_shuffled_range(uint32_t seed, uint64_t count, stoker_index_dtype dtype, void *out,
                                               stoker_error *err);

#ifdef __cplusplus
}
#endif

#endif
