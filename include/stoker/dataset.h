/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexed token datasets, Megatron-LM's PREFIX.idx and PREFIX.bin: open, read, check, write, merge. Byte for byte what
 * Megatron-LM reads and writes; docs/reference/token-files.md describes the format.
 *
 * A dataset is a list of sequences (arrays of one element type) and a list of documents (runs of sequences). Elements
 * are little-endian on disk and in memory.
 */
#ifndef STOKER_DATASET_H
#define STOKER_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stoker_dataset stoker_dataset;
typedef struct stoker_dataset_builder stoker_dataset_builder;

/** Element types by their code on disk. */
typedef enum stoker_token_dtype {
    STOKER_TOKEN_UINT8 = 1,
    STOKER_TOKEN_INT8 = 2,
    STOKER_TOKEN_INT16 = 3,
    STOKER_TOKEN_INT32 = 4,
    STOKER_TOKEN_INT64 = 5,
    STOKER_TOKEN_FLOAT64 = 6,
    STOKER_TOKEN_FLOAT32 = 7,
    STOKER_TOKEN_UINT16 = 8
} stoker_token_dtype;

/** Bytes of one element; 0 for a code that is none.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API size_t stoker_token_dtype_size(int code);

/* ---------------------------------------------------------------------------------------------------------- reading */

/** How the bytes of PREFIX.bin are reached. */
typedef enum stoker_dataset_access {
    STOKER_DATASET_MMAP = 0, /**< mapped whole; reads are views */
    STOKER_DATASET_FILE = 1, /**< positional reads; the file is opened for each read (any number of datasets) */
    STOKER_DATASET_OBJECT = 2 /**< s3://, http:// or https:// range reads through a block cache */
} stoker_dataset_access;

/** A caller's own range reads, for storage that stoker does not know (msc://). */
typedef struct stoker_range_ops {
    /** Size in bytes of the object; negative status on failure. */
    stoker_status (*size)(void *user, const char *url, uint64_t *out_size, stoker_error *err);
    /** Reads exactly `size` bytes at `offset` into `out`. */
    stoker_status (*read)(void *user, const char *url, uint64_t offset, size_t size, void *out, stoker_error *err);
    void *user;
} stoker_range_ops;

/** How s3://, http:// and https:// are reached. The library reads no environment: its caller does, or lets
 * stoker_object_settings_create() apply the usual rules. Zero means the documented default. */
typedef struct stoker_object_options {
    uint32_t struct_size;
    const char *access_key_id;     /**< with secret_access_key; NULL: requests are not signed */
    const char *secret_access_key;
    const char *session_token;
    const char *region;            /**< NULL: us-east-1 */
    const char *endpoint;          /**< of S3, "http[s]://host[:port]"; NULL: Amazon's of the region */
    int path_style;                /**< bucket in the path (1) or in the host name (-1); 0: in the path with an endpoint
                                        of one's own or a bucket that is no host name */
    const char *ca_bundle;         /**< file of certificates to trust; NULL: the system's */
    const char *http_proxy, *https_proxy; /**< for addresses of that scheme; NULL: none */
    const char *no_proxy;          /**< host names, separated by commas, that are reached without */
    uint64_t connect_timeout_ns;   /**< 0: 10 s */
    uint64_t stall_timeout_ns;     /**< a transfer that moves next to nothing for so long has failed; 0: 30 s; counted
                                        in whole seconds */
    int retries;                   /**< of stoker_object_*(), a dataset has its own: tries after a failed one; 0: 3;
                                        negative: none */
    uint64_t retry_delay_ns;       /**< before the first of them, then doubling; 0: 0.2 s */
} stoker_object_options;

#define STOKER_OBJECT_OPTIONS_INIT { sizeof(stoker_object_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Options of object storage with the text that they point to. */
typedef struct stoker_object_settings stoker_object_settings;

/** Value of a variable of an environment, or NULL. The text is borrowed until the next call. */
typedef const char *(*stoker_environment_fn)(void *user, const char *name);

/** Options by the usual rules of Amazon's tools, from an environment that the caller reads: AWS_ACCESS_KEY_ID with
 * AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or
 * AWS_ENDPOINT_URL, AWS_CA_BUNDLE or SSL_CERT_FILE; what they lack, from the profile AWS_PROFILE ("default") of
 * AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE (HOME/.aws/credentials and config); http_proxy, https_proxy,
 * all_proxy and no_proxy (the last three in capitals, too); STOKER_OBJECT_CONNECT_TIMEOUT_MS and
 * STOKER_OBJECT_STALL_TIMEOUT_MS.
 *
 * Owns:    `get` is called during the call only. On success *out_settings is the caller's, who calls
 *          stoker_object_settings_destroy().
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (half a pair of keys, no number), NOT_FOUND (no such profile), UNSUPPORTED (a profile whose
 *          keys come from a service), CORRUPT (a file, naming the line), IO, LIMIT, NO_MEMORY. No message holds a key.
 */
STOKER_API stoker_status stoker_object_settings_create(stoker_environment_fn get, void *user,
                                                       stoker_object_settings **out_settings, stoker_error *err);

/** The options.
 *
 * Owns:    the result and its text are the settings'.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API const stoker_object_options *stoker_object_settings_options(const stoker_object_settings *settings);

/** Free settings; keys are overwritten. NULL is allowed.
 *
 * Owns:    takes `settings`.
 * Threads: one at a time.
 * Errors:  none.
 */
STOKER_API void stoker_object_settings_destroy(stoker_object_settings *settings);

/** One object in storage, read by range. */
typedef struct stoker_object stoker_object;

/** Open an object. Nothing is asked of the server yet.
 *
 * Owns:    `url` and `options` (NULL: defaults) are copied. On success *out_object is the caller's, who calls
 *          stoker_object_close().
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (address or options), UNSUPPORTED (built without libcurl), LIMIT, NO_MEMORY.
 */
STOKER_API stoker_status stoker_object_open(const char *url, const stoker_object_options *options,
                                            stoker_object **out_object, stoker_error *err);

/** Close an object. NULL is allowed.
 *
 * Owns:    takes `object`.
 * Threads: one at a time.
 * Errors:  none.
 */
STOKER_API void stoker_object_close(stoker_object *object);

/** Size in bytes.
 *
 * Owns:    nothing.
 * Threads: any at once, also in a forked child.
 * Errors:  NOT_FOUND, IO (access refused, certificates), UNAVAILABLE and TIMEOUT (after the tries), PROTOCOL,
 *          UNSUPPORTED, MISMATCH (it changed since it was first looked at).
 */
STOKER_API stoker_status stoker_object_size(stoker_object *object, uint64_t *out_size, stoker_error *err);

/** Where the bytes lie that stoker_object_read() copies. */
typedef struct stoker_object_range {
    uint64_t offset;
    size_t size;
} stoker_object_range;

/** Read exactly the bytes of a range; long ones by several requests at once.
 *
 * Owns:    `out` has room for range.size bytes.
 * Threads: as stoker_object_size().
 * Errors:  as stoker_object_size(); CORRUPT (the object ends before).
 */
STOKER_API stoker_status stoker_object_read(stoker_object *object, stoker_object_range range, void *out,
                                            stoker_error *err);

/** Copy an object to a file, which appears when it is complete; folders are made.
 *
 * Owns:    `path` is borrowed.
 * Threads: as stoker_object_size().
 * Errors:  as stoker_object_size(); NO_SPACE, IO.
 */
STOKER_API stoker_status stoker_object_download(stoker_object *object, const char *path, stoker_error *err);

typedef struct stoker_dataset_options {
    uint32_t struct_size;
    int multimodal;                       /**< the file has one mode (int8) for each sequence */
    stoker_dataset_access access;
    int unchecked;                        /**< fast load: values of the index are checked when they are used, not at the
                                               opening; PREFIX.bin is not looked at before the first read */
    uint64_t sequences, document_entries; /**< counts from a counts file; with dtype: the header is not read */
    int dtype_code;                       /**< 0: from the header */
    int open_retries;                     /**< tries after a failed read (file and object); 0: 3; negative: none */
    uint64_t retry_delay_ns;              /**< before the first, then doubling; 0: 10 s (file), 0.2 s (object) */
    const char *index_cache_dir;          /**< object access: folder that PREFIX.idx is kept in */
    uint64_t block_bytes;                 /**< object access: size of a cached block; 0: 256 MiB */
    const stoker_range_ops *ranges;       /**< object access: the caller's reader; NULL: libcurl */
    const stoker_object_options *object;  /**< object access by libcurl; NULL: unsigned, all defaults */
} stoker_dataset_options;

#define STOKER_DATASET_OPTIONS_INIT                                                                                   \
    { sizeof(stoker_dataset_options), 0, STOKER_DATASET_MMAP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Open an indexed dataset for reading.
 *
 * Every header field, length, offset and document entry is validated before it returns (unless `unchecked`), so that
 * later reads cannot leave the file.
 *
 * Owns:    everything is borrowed for the call, `ranges->user` for the life of the dataset. On success *out_dataset is
 *          the caller's (one reference), who calls stoker_dataset_close().
 * Threads: any; the dataset is immutable and may be read by many threads at once, also in forked children.
 * Errors:  NOT_FOUND, CORRUPT (naming file, field, offset and value), UNSUPPORTED (version or dtype), IO, NO_MEMORY,
 *          UNAVAILABLE and TIMEOUT (object storage).
 */
STOKER_API stoker_status stoker_dataset_open(const char *prefix, const stoker_dataset_options *options,
                                             stoker_dataset **out_dataset, stoker_error *err);

/** One more reference to the dataset; each is returned by stoker_dataset_close().
 *
 * Owns:    the result is `dataset`, shared.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API stoker_dataset *stoker_dataset_ref(stoker_dataset *dataset);

/** Return a reference; the last one closes the files. NULL is allowed.
 *
 * Owns:    takes the reference.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_dataset_close(stoker_dataset *dataset);

/** What an open dataset holds. The arrays are little-endian and, as in the file, need not be aligned; they live as long
 * as the dataset. */
typedef struct stoker_dataset_facts {
    uint64_t sequences;        /**< number of sequences */
    uint64_t document_entries; /**< entries of the document index: documents + 1 */
    int dtype_code;
    uint64_t bin_bytes;        /**< size of PREFIX.bin; 0 with `unchecked` before the first read */
    const void *lengths;       /**< int32 [sequences]: elements */
    const void *offsets;       /**< int64 [sequences]: bytes */
    const void *documents;     /**< int64 [document_entries]: sequence numbers */
    const void *modes;         /**< int8 [sequences], or NULL */
    const void *bin;           /**< all of PREFIX.bin if it is mapped, else NULL */
} stoker_dataset_facts;

/** Facts of an open dataset.
 *
 * Owns:    the pointers in *out_facts are the dataset's.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API void stoker_dataset_get_facts(const stoker_dataset *dataset, stoker_dataset_facts *out_facts);

/** A run of elements: `count` of them from element `first` of sequence `sequence` on. */
typedef struct stoker_dataset_run {
    uint64_t sequence;
    uint64_t first;
    uint64_t count;
} stoker_dataset_run;

/** Copy a run of elements, in their own type. The run may pass the end of its sequence into the next ones (as in
 * Megatron-LM), but not the end of the file.
 *
 * Owns:    `out` has room for run.count elements.
 * Threads: any.
 * Errors:  INVALID_ARGUMENT (no such sequence), CORRUPT (the file ends before, naming sequence and offset), IO,
 *          UNAVAILABLE, TIMEOUT.
 */
STOKER_API stoker_status stoker_dataset_read(const stoker_dataset *dataset, stoker_dataset_run run, void *out,
                                             stoker_error *err);

/** As stoker_dataset_read(), each element converted to int64 (floating values truncated toward zero).
 *
 * Owns:    `out` has room for run.count elements.
 * Threads: any.
 * Errors:  as stoker_dataset_read().
 */
STOKER_API stoker_status stoker_dataset_read_int64(const stoker_dataset *dataset, stoker_dataset_run run, int64_t *out,
                                                   stoker_error *err);

/** Check every length, offset and document entry again, and that PREFIX.bin is exactly as long as they say.
 *
 * Owns:    nothing. *out_sequence is the first bad sequence (UINT64_MAX if the fault is elsewhere); written on failure
 *          only.
 * Threads: any.
 * Errors:  CORRUPT (naming sequence, offset and value), IO.
 */
STOKER_API stoker_status stoker_dataset_verify(const stoker_dataset *dataset, uint64_t *out_sequence,
                                               stoker_error *err);

/* ---------------------------------------------------------------------------------------------------------- writing */

/** What to do with integers that the element type cannot hold. */
typedef enum stoker_token_range {
    STOKER_TOKEN_RANGE_ERROR = 0, /**< LIMIT, naming document and position */
    STOKER_TOKEN_RANGE_WRAP = 1   /**< modulo 2^bits, as NumPy's astype */
} stoker_token_range;

typedef struct stoker_dataset_builder_options {
    uint32_t struct_size;
    int dtype_code; /**< 0: int32 */
    int multimodal;
    stoker_token_range range;
    int unsynced; /**< publish without waiting for the disk, as Megatron-LM does: whole or not at all for every
                       program, but a power cut soon after may leave files with holes */
} stoker_dataset_builder_options;

#define STOKER_DATASET_BUILDER_OPTIONS_INIT                                                                            \
    { sizeof(stoker_dataset_builder_options), 0, 0, STOKER_TOKEN_RANGE_ERROR, 0 }

/** Begin a dataset. Nothing appears under the final names before stoker_dataset_builder_finalize(): data goes to a
 * temporary file beside `bin_path`.
 *
 * Owns:    paths and options are borrowed. On success *out_builder is the caller's, who calls
 *          stoker_dataset_builder_destroy(), before which nothing is published without finalize.
 * Threads: one thread at a time. In a forked child every call but destroy gives WRONG_STATE, and destroy leaves the
 *          parent's file alone.
 * Errors:  INVALID_ARGUMENT, NOT_FOUND (the folder), IO, NO_SPACE, NO_MEMORY.
 */
STOKER_API stoker_status stoker_dataset_builder_create(const char *bin_path,
                                                       const stoker_dataset_builder_options *options,
                                                       stoker_dataset_builder **out_builder, stoker_error *err);

/** Elements as they come: any of the eight types. */
typedef struct stoker_elements {
    const void *data;
    uint64_t count;
    int dtype_code;
} stoker_elements;

/** Append one sequence. Does not end a document.
 *
 * Owns:    elements are borrowed.
 * Threads: one at a time.
 * Errors:  LIMIT (a value that does not fit, or 2^31 elements or more), IO, NO_SPACE, NO_MEMORY. After an error the
 *          builder is as before the call.
 */
STOKER_API stoker_status stoker_dataset_builder_add_item(stoker_dataset_builder *builder, stoker_elements elements,
                                                         int8_t mode, stoker_error *err);

/** Append one document of several sequences.
 *
 * Owns:    everything is borrowed; `lengths` has `sequence_count` entries whose sum must be elements.count; `modes` as
 *          many, or NULL for zeros.
 * Threads: one at a time.
 * Errors:  as add_item; INVALID_ARGUMENT (the sum differs).
 */
STOKER_API stoker_status stoker_dataset_builder_add_document(stoker_dataset_builder *builder, stoker_elements elements,
                                                             const int32_t *lengths, uint64_t sequence_count,
                                                             const int8_t *modes, stoker_error *err);

/** Documents of one sequence each, flat: document i has elements [offsets[i], offsets[i + 1]). */
typedef struct stoker_document_batch {
    stoker_elements elements;
    const int64_t *offsets; /**< document_count + 1 entries, ascending, the first need not be 0 */
    uint64_t document_count;
    const int8_t *modes;    /**< document_count, or NULL for zeros */
    int append_eod;
    int64_t eod;            /**< appended to each document, also to an empty one */
} stoker_document_batch;

/** Append many documents at once.
 *
 * Owns:    everything is borrowed.
 * Threads: one at a time.
 * Errors:  as add_item; INVALID_ARGUMENT (offsets).
 */
STOKER_API stoker_status stoker_dataset_builder_add_documents(stoker_dataset_builder *builder,
                                                              const stoker_document_batch *batch, stoker_error *err);

/** End the current document. Twice in a row makes an empty document.
 *
 * Owns:    nothing.
 * Threads: one at a time.
 * Errors:  NO_MEMORY.
 */
STOKER_API stoker_status stoker_dataset_builder_end_document(stoker_dataset_builder *builder, stoker_error *err);

/** Append all sequences and documents of the dataset at `prefix`, whose element type must be the builder's, and copy
 * its data at the speed of the file system. Its data must lie as its lengths say.
 *
 * Owns:    prefix is borrowed.
 * Threads: one at a time.
 * Errors:  MISMATCH (another type), and those of opening and of stoker_dataset_verify(); IO, NO_SPACE, NO_MEMORY.
 *          CANCELED. After an error the builder is as before the call.
 */
STOKER_API stoker_status stoker_dataset_builder_add_index(stoker_dataset_builder *builder, const char *prefix,
                                                          stoker_error *err);

/** Publish the dataset: both files are written and synced, then renamed, the index last.
 *
 * Owns:    idx_path is borrowed.
 * Threads: one at a time. Afterwards only stoker_dataset_builder_destroy() is allowed.
 * Errors:  WRONG_STATE (sequences after the last document end, naming how many; nothing is published), IO, NO_SPACE,
 *          CANCELED (nothing is published; the call may be made again).
 */
STOKER_API stoker_status stoker_dataset_builder_finalize(stoker_dataset_builder *builder, const char *idx_path,
                                                         stoker_error *err);

/** Make a call of stoker_dataset_builder_add_index() or _finalize() that runs in another thread end soon with CANCELED.
 * It may be on its way to an end without it: say it again until the call has returned. Between calls it does nothing.
 * NULL is allowed.
 *
 * Owns:    nothing.
 * Threads: any, at any time before stoker_dataset_builder_destroy().
 * Errors:  none.
 */
STOKER_API void stoker_dataset_builder_cancel(stoker_dataset_builder *builder);

/** Free the builder; what was not finalized is removed. NULL is allowed.
 *
 * Owns:    takes `builder`.
 * Threads: one at a time.
 * Errors:  none.
 */
STOKER_API void stoker_dataset_builder_destroy(stoker_dataset_builder *builder);

#ifdef __cplusplus
}
#endif

#endif
