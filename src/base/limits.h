/* SPDX-License-Identifier: Apache-2.0
 *
 * Every bound of the system, with its reason. Sizes in bytes unless the name says otherwise.
 */
#ifndef STK_BASE_LIMITS_H
#define STK_BASE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* Wire. A batch of 65,536 ids is 512 KiB; pickled keys of a Python batch may be long strings: 64 MiB is past any sane
 * batch. */
#define STK_MESSAGE_BYTES_MAX (64u << 20)
/* What a process source may request: REQUEST and TASK, which carry it, then still fit one message. */
#define STK_PAYLOAD_BYTES_MAX (STK_MESSAGE_BYTES_MAX - 4096u)
/* Descriptors that travel with one message: the kernel allows 253; a native batch touches one segment a task. */
#define STK_MESSAGE_FDS_MAX 4u
/* Unsent bytes a connection may pile up before its peer counts as stuck and is dropped. */
#define STK_CHANNEL_BACKLOG_BYTES_MAX (256u << 20)
#define STK_TEXT_BYTES_MAX 4096u         /* a name, path or message on the wire (PATH_MAX) */
#define STK_DETAIL_BYTES_MAX (1u << 20)  /* a pickled exception with its traceback */
#define STK_CPU_MASK_BYTES_MAX 1024u     /* 8,192 CPUs, the most that Linux can be built for */
#define STK_LEAVES_MAX 1024u             /* tensors of one batch in a slab; small ones travel in the skeleton */
#define STK_NATIVE_LEAVES_MAX 8u         /* tensors of a native batch; token samples have up to 7 */
#define STK_DIMS_MAX 8u

/* Native video samples. 16 GiB is beyond any batch; 65,536 pixels a side is beyond any codec. */
#define STK_SAMPLE_FRAMES_MAX 65536u
#define STK_SAMPLE_SIDE_MAX 65536u
#define STK_SAMPLE_BYTES_MAX (UINT64_C(16) << 30)

/* Tables of one DataServer. */
#define STK_RANKS_MAX 256u          /* ranks of one host */
#define STK_LANES_MAX 1024u         /* (loader, rank) pairs: 4 loaders for each of 256 ranks */
#define STK_WORKERS_MAX 1024u       /* worker processes of one host */
#define STK_BATCHES_MAX 16384u      /* batches in flight, all lanes; 16 for each of 1,024 lanes */
#define STK_BATCH_SAMPLES_MAX 65536u /* samples in one batch */
#define STK_ITEMS_MAX 262144u       /* items (samples of native batches, whole Python batches) in flight */
#define STK_SEGMENTS_MAX 8192u      /* shared segments; each costs a descriptor */

/* Cost models of one Coordinator: (job, class, host); 1,024 hosts with 8 jobs of 8 classes. Each takes 1.5 KiB. */
#define STK_COST_MODELS_MAX 65536u
#define STK_COST_ROWS_MAX 4096u /* of a profile; a model remembers a few hundred results */

/* Memory. */
#define STK_LEAF_ALIGNMENT 256u               /* widest vector and DMA alignment in use (rule A6) */
#define STK_LEAF_COPY_BYTES (64u << 10)       /* smaller leaves are private copies (rule A5) */
#define STK_PAGE_BYTES 4096u
#define STK_SHARED_BYTES_MIN (256u << 10)     /* a segment that small slabs share: runs of one page ... */
#define STK_SHARED_BYTES_MAX (4u << 20)       /* ... and of 64 KiB */
#define STK_RESERVE_STEP_BYTES (64u << 20)    /* posix_fallocate step (rule A3) */
#define STK_MEMORY_MARGIN_BYTES (64u << 20)   /* left free on the machine and in the cgroup (rule A3) */
#define STK_MAX_BYTES_DEFAULT (UINT64_C(2) << 30)

/* Saved index arrays. A blend of 32,766 datasets has 98,298 of them, a process may have 65,530 mappings: those up to 64
 * KiB are read into memory, and those up to 64 MiB when STK_INDEX_MAPS_MAX mappings are in use. */
#define STK_NPY_READ_BYTES_MAX ((size_t)64 << 10)
#define STK_NPY_FALLBACK_BYTES_MAX ((size_t)64 << 20)
#define STK_BLEND_DATASETS_MAX 32766u /* dataset_index is int16, as in Megatron-LM */

/* Time. */
#define STK_SECOND_NS UINT64_C(1000000000)
#define STK_CONNECT_TIMEOUT_NS (10 * STK_SECOND_NS)   /* rule B7 */
#define STK_IDLE_EXIT_NS (30 * STK_SECOND_NS)         /* rule B7 */
#define STK_STALL_LIMIT_NS (300 * STK_SECOND_NS)      /* a decode takes seconds, a slow store minutes */
#define STK_SAMPLE_CPU_NS (120 * STK_SECOND_NS)       /* of one native sample: an hour of video takes less */
#define STK_HEARTBEAT_NS (1 * STK_SECOND_NS)

/* Token data. */
#define STK_INDEX_READ_BYTES_MAX (64u << 10) /* smaller .idx files are read: a mapping costs one of 65,530 */
#define STK_INDEX_MAPS_MAX 57344u /* mappings of .idx and .bin files; of the usual 65,530 (vm.max_map_count) the rest is
                                     left to the allocator, threads and libraries. Beyond, files are read */
#define STK_TOKEN_BUFFER_BYTES (1u << 20)  /* what a builder gathers before it writes */
#define STK_TOKEN_CHUNK_BYTES (1u << 20)   /* step in which a builder's lists grow: no copy, no doubling */

/* Ranges of objects. */
#define STK_URL_BYTES_MAX 8192u /* an address; servers refuse longer request lines */
#define STK_HTTP_HEAD_BYTES_MAX 32768u /* a request's head with a session token; servers take 8 to 64 KiB */
#define STK_HTTP_TEXT_BYTES_MAX 256u   /* an ETag or a date of an answer; longer ones count as absent */
#define STK_WHOLE_BYTES_MAX (UINT64_C(64) << 20) /* what is read and dropped of a server that ignores ranges */
#define STK_PROFILE_BYTES_MAX (1u << 20) /* a file of credentials or profiles */
#define STK_OBJECT_STALL_NS (30 * STK_SECOND_NS)     /* S3 answers within seconds, also when it is busy */
#define STK_OBJECT_RETRIES 3
#define STK_OBJECT_DELAY_NS (STK_SECOND_NS / 5)
#define STK_OBJECT_DELAY_NS_MAX (20 * STK_SECOND_NS) /* as Amazon's tools */
#define STK_RANGE_WAYS_MAX 16u  /* requests at once for one read: one connection of S3 gives about 1 Gbit/s */
#define STK_RANGE_PART_BYTES ((size_t)16 << 20) /* longer reads are cut; at 100 MB/s a part takes ten round trips */
#define STK_BLOCK_BYTES_DEFAULT (UINT64_C(256) << 20) /* Megatron-LM's bin_chunk_nbytes */
#define STK_BLOCK_BUCKETS_MAX 65536u            /* of the table of cached blocks; more blocks share buckets */
/* An object that is read like a file, in no order: blocks of a round trip at 100 MB/s, a few of them. */
#define STK_FILE_BLOCK_BYTES ((uint64_t)1 << 20)
#define STK_FILE_CACHE_BYTES ((uint64_t)16 << 20)
#define STK_SHARD_INDEX_BYTES_MAX ((uint64_t)4 << 30) /* an index file that is read: 50 million members */

/* Sample index. A sample and its extra token are counted in 32 bits by Megatron-LM. */
#define STK_SEQUENCE_LENGTH_MAX 2147483646u
#define STK_SPLIT_DIGITS_MAX 300u /* of one number of a split text; any finite decimal that means anything is shorter */

/* Text. */
#define STK_JSON_LINE_BYTES_MAX (1u << 30) /* one line; whole books are a few MB */
#define STK_JSON_DEPTH_MAX 4096u           /* objects and lists within one another; json.loads() gives up near 1,000 */
#define STK_JSON_KEYS_MAX 64u
#define STK_PIECES_MAX 0x7ffffff0u /* pieces are numbered in 31 bits */

/* Images. Pillow refuses more pixels too; a form may ask for up to 2^30, which is 4 GiB with alpha. */
#define STK_IMAGE_PIXELS_MAX 178956970u
#define STK_IMAGE_PIXELS_LARGEST (1u << 30)
#define STK_IMAGE_BYTES_MAX (UINT64_C(1) << 30) /* of a file, which is read whole */
#define STK_IMAGE_SCALED_MAX (1u << 24) /* the long side before the crop: a line of pixels is no picture */

/* Bad files: more than this in one list is a broken data set, not a list of exceptions. */
#define STK_QUARANTINE_MAX (1u << 20)

/* Packing. Ids are uint32_t; a global batch of 16 million samples is beyond any. cu_seqlens are int32, and the sum of
 * L * L then fits in 64 bits. */
#define STK_PACK_SAMPLES_MAX (1u << 24)
#define STK_PACK_TOKENS_MAX UINT64_C(0x7fffffff)
#define STK_PACK_RANKS_MAX (1u << 20)

/* Token-aware batches. Shares of a source are compared as products of two numbers of samples: 62 bits. */
#define STK_BATCH_TOTAL_MAX 0x7fffffffu
#define STK_BATCH_WINDOW_MAX (1u << 22)     /* samples of a window that nobody asked for: 100 bytes each */
#define STK_BATCH_RANKS_MAX (1u << 16)
#define STK_BATCH_STEP_CELLS_MAX (1u << 20) /* samples, or micro-batches, of one step of all ranks */
#define STK_BATCH_SHAPES_MAX (1u << 16)
#define STK_BATCH_SOURCES_MAX 1024u
#define STK_BATCH_STRATA_MAX (1u << 20)
#define STK_BATCH_LOAD_MAX (UINT64_C(1) << 40) /* dearer samples count as this: sums over a step fit in 64 bits */

#endif
