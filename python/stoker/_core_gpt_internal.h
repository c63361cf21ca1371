/* SPDX-License-Identifier: Apache-2.0
 *
 * A GptDataset, for the two sources that make its items.
 */
#ifndef STOKER_PYTHON_CORE_GPT_INTERNAL_H
#define STOKER_PYTHON_CORE_GPT_INTERNAL_H

#include "_core_block.h"
#include "_core_gpt.h"

enum { MEMBERS = 7 };

/* In the order in which an item has them. */
enum member { TOKENS, LABELS, ATTENTION_MASK, LOSS_MASK, POSITION_IDS, CU_SEQLENS, MAX_SEQLEN };

struct core_gpt_member {
    const char *name, *dtype;
    size_t item_bytes;
    uint8_t code; /* of the type, in DLPack */
};
extern const struct core_gpt_member core_gpt_members[MEMBERS];

struct gpt_object {
    PyObject_HEAD stoker_gpt_dataset *gpt; /* NULL: construction failed */
    PyObject *file;                        /* IndexedFile, or NULL */
    uint64_t length;                       /* S */
    stoker_gpt_form form;
    int wanted[MEMBERS];
    size_t offset[MEMBERS], size; /* of a block */
    int has_form;
    struct core_block_pool *pool;
    core_tensor_maker *maker;    /* NULL: no tensors */
    PyObject *constant[MEMBERS]; /* of tensors(): what all items have; or NULL */
};

/* Elements of a member of one item. */
uint64_t core_gpt_member_count(const struct gpt_object *self, int member);
/* -1 with an exception set if set_form() was not called. */
int core_gpt_need_form(const struct gpt_object *self);
stoker_gpt_item core_gpt_places(void *const at[MEMBERS]);
/* INT64_MIN stands for None; no index is so small. -1 with an exception set. */
int core_gpt_index(PyObject *object, int64_t *out);
/* A buffer of exactly its size for each member, `count` items of it: cutting one at an offset costs PyTorch half as
 * much again. Takes the block. */
PyObject *core_gpt_parts(const struct gpt_object *self, PyObject *block, const int is_wanted[MEMBERS],
                         const size_t offset[MEMBERS], size_t count);

/* Methods. */
PyObject *core_gpt_parts_of_many(PyObject *object, PyObject *sequence);
PyObject *core_gpt_set_tensors(PyObject *object, PyObject *args);
PyObject *core_gpt_tensors(PyObject *object, PyObject *index_object);
PyObject *core_gpt_tensors_of_many(PyObject *object, PyObject *sequence);

#endif
