/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index build`: the index caches of a training, before it begins. The rules about datasets are those of
 * stoker.megatron, so the work is done by stoker._tools.prepare_cache; here is its help.
 */
#include <stddef.h>

#include "cli/command.h"
#include "cli/python.h"

static const struct cli_option options[] = {
    {0, "data-path", "ITEM...", "one blend for all splits: prefixes, or weight and prefix in turn", NULL, NULL},
    {0, "data-args-path", "FILE", "the same from a file", NULL, NULL},
    {0, "train-data-path", "ITEM...", "blend of the train split", NULL, NULL},
    {0, "valid-data-path", "ITEM...", "blend of the valid split", NULL, NULL},
    {0, "test-data-path", "ITEM...", "blend of the test split", NULL, NULL},
    {0, "per-split-data-args-path", "FILE", "the same from a JSON file", NULL, NULL},
    {0, "split", "SHARES", "of train, valid and test, such as 99,1,0", NULL, NULL},
    {0, "data-cache-path", "FOLDER", "where the caches go", NULL, NULL},
    {0, "per-dataset-sequences-path", "FILE", "counts file: headers are not read", NULL, NULL},
    {0, "object-storage-cache-path", "FOLDER", "where index files of object storage are kept", NULL, NULL},
    {0, "multiple-validation-sets", NULL, "each valid prefix is a set of its own", NULL, NULL},
    {0, "full-validation", NULL, "validation runs over whole sets", NULL, NULL},
    {0, "seq-length", "N", "tokens of a sample", NULL, NULL},
    {0, "seed", "N", "of every shuffle (1234)", NULL, NULL},
    {0, "train-iters", "N", "iterations of the training", NULL, NULL},
    {0, "train-samples", "N", "samples of the training, instead of iterations", NULL, NULL},
    {0, "eval-iters", "N", "batches of one evaluation (100)", NULL, NULL},
    {0, "eval-interval", "N", "iterations between evaluations (1000)", NULL, NULL},
    {0, "start-eval-at-iter", "N", "no evaluation before this iteration", NULL, NULL},
    {0, "skip-train", NULL, "the job only evaluates", NULL, NULL},
    {0, "micro-batch-size", "N", "samples of one step of a rank", NULL, NULL},
    {0, "global-batch-size", "N", "samples of one iteration (micro-batch x data-parallel size)", NULL, NULL},
    {0, "eval-global-batch-size", "N", "samples of one batch of evaluation (global-batch-size)", NULL, NULL},
    {0, "prepare-cache-world-size", "N", "ranks of the training, instead of world-size", NULL, NULL},
    {0, "world-size", "N", "ranks (the variable WORLD_SIZE, or 1)", NULL, NULL},
    {0, "tensor-model-parallel-size", "N", "ranks of one tensor group (1)", NULL, NULL},
    {0, "pipeline-model-parallel-size", "N", "ranks of one pipeline (1)", NULL, NULL},
    {0, "context-parallel-size", "N", "ranks of one context group (1)", NULL, NULL},
    {0, "mid-level-dataset-surplus", "X", "share by which datasets of a blend are larger (0.005)", NULL, NULL},
    {0, "num-dataset-builder-threads", "N", "prefixes that are built at once (1)", NULL, NULL},
    {0, "no-mmap-bin-files", NULL, "positional reads", NULL, NULL},
    {0, "reset-position-ids", NULL, "without effect on an index", NULL, NULL},
    {0, "reset-attention-mask", NULL, "without effect on an index", NULL, NULL},
    {0, "eod-mask-loss", NULL, "without effect on an index", NULL, NULL},
    {0, "no-create-attention-mask-in-dataloader", NULL, "without effect on an index", NULL, NULL},
    {0, "allow-ambiguous-pad-tokens", NULL, "without effect on an index", NULL, NULL},
    {0, "dataloader-fast-cache-load", NULL, "ignored, with a note", NULL, NULL},
    {0, "dataloader-defer-npy-index-mmap", NULL, "ignored, with a note", NULL, NULL},
    {0, "mock-data", NULL, "refused: nothing to prepare", NULL, NULL},
    {0, "sft", NULL, "refused: other datasets", NULL, NULL},
    {0, "fim-data", NULL, "refused: other datasets", NULL, NULL},
    {0, "step-batch-size-schedule", "TEXT", "refused: sizes are not known", NULL, NULL},
    {0, "tokenizer-type", "TYPE", "as in the training script; part of every identity", NULL, NULL},
    {0, "tokenizer-model", "NAME", "as in the training script", NULL, NULL},
    {0, "tokenizer-identity", "FILE", "identity from a JSON file, or from the description of a cache", NULL, NULL},
    {0, "vocab-size", "N", "as in the training script", NULL, NULL},
    {0, "vocab-file", "FILE", "as in the training script", NULL, NULL},
    {0, "merge-file", "FILE", "as in the training script", NULL, NULL},
    {0, "null-tokenizer-eod-id", "ID", "as in the training script", NULL, NULL},
    {0, "null-tokenizer-pad-id", "ID", "as in the training script", NULL, NULL},
    {0, "tokenizer-special-tokens", "TOKEN...", "as in the training script", NULL, NULL},
    {0, "tokenizer-hf-no-use-fast", NULL, "as in the training script", NULL, NULL},
    {0, "tokenizer-hf-no-include-special-tokens", NULL, "as in the training script", NULL, NULL},
    {0, "trust-remote-code", NULL, "as in the training script; no code is loaded here", NULL, NULL},
    {0, "tokenizer-sentencepiece-legacy", NULL, "as in the training script", NULL, NULL},
    {0, "tiktoken-pattern", "NAME", "as in the training script", NULL, NULL},
    {0, "tiktoken-num-special-tokens", "N", "as in the training script (1000)", NULL, NULL},
    {0, "plan", NULL, "print sizes, build nothing", NULL, NULL},
    {0, "ignore-unknown", NULL, "pass over other options of the training script", NULL, NULL},
    {0, "progress", NULL, "name the prefixes on stderr although it is no terminal", NULL, NULL},
    {0, "no-progress", NULL, "do not", NULL, NULL},
    {0, "json", NULL, "print the result as one JSON object", NULL, NULL},
};

int cmd_index_build(int argc, char **argv)
{
    const struct cli_usage usage = {
        "index build", "--data-path ITEM... --data-cache-path FOLDER --seq-length N [options]",
        "Build the index caches that a training with these arguments will look for, so that it starts at once.\n"
        "The files are those of Megatron-LM; give the arguments of the training script.",
        options, sizeof options / sizeof options[0]};
    return cli_python_run(&usage, "prepare_cache", argc, argv);
}
