# SPDX-License-Identifier: Apache-2.0
"""`stoker index build`: make the index caches of a training before it begins, as Megatron-LM's tools/prepare_cache.py.

The arguments are those of the training script as far as they decide about data. ``prepare`` is the tool itself: arguments
in, what it prints and returns out; `main` adds the command line, --plan and --json.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from typing import Any

from . import build_checks, tokenizer_identity
from .command import DATA, DONE, Parser, Refusal, print_json, run

LEGACY_SPLIT = "969, 30, 1"  # what the reference takes for data paths without --split
SPLITS = ["train", "valid", "test"]


def parser() -> Parser:
    made = Parser("index build")
    # which data
    for name in ("data-path", "train-data-path", "valid-data-path", "test-data-path"):
        made.add_argument(f"--{name}", nargs="*")
    for name in ("data-args-path", "per-split-data-args-path", "data-cache-path", "per-dataset-sequences-path",
                 "object-storage-cache-path", "split"):
        made.add_argument(f"--{name}")
    made.add_argument("--multiple-validation-sets", action="store_true")
    made.add_argument("--full-validation", action="store_true")
    # how much
    for name in ("seq-length", "train-iters", "train-samples", "micro-batch-size", "global-batch-size", "eval-global-batch-size",
                 "prepare-cache-world-size", "world-size", "start-eval-at-iter"):
        made.add_argument(f"--{name}", type=int)
    for name, default in (("eval-iters", 100), ("eval-interval", 1000), ("seed", 1234), ("num-dataset-builder-threads", 1),
                          ("tensor-model-parallel-size", 1), ("pipeline-model-parallel-size", 1),
                          ("context-parallel-size", 1)):
        made.add_argument(f"--{name}", type=int, default=default)
    made.add_argument("--skip-train", action="store_true")
    made.add_argument("--mid-level-dataset-surplus", type=float, default=0.005)
    # forms of items and of reading; they do not change an index
    for name in ("reset-position-ids", "reset-attention-mask", "eod-mask-loss", "allow-ambiguous-pad-tokens",
                 "dataloader-fast-cache-load", "dataloader-defer-npy-index-mmap"):
        made.add_argument(f"--{name}", action="store_true")
    made.add_argument("--no-mmap-bin-files", action="store_false", dest="mmap_bin_files")
    made.add_argument("--no-create-attention-mask-in-dataloader", action="store_false",
                      dest="create_attention_mask_in_dataloader")
    # refused
    made.add_argument("--mock-data", action="store_true")
    made.add_argument("--sft", action="store_true")
    made.add_argument("--fim-data", action="store_true")
    made.add_argument("--step-batch-size-schedule")
    tokenizer_identity.add_arguments(made)
    # stoker's own
    made.add_argument("--plan", action="store_true")
    made.add_argument("--ignore-unknown", action="store_true")
    made.add_argument("--progress", action="store_true", default=None)
    made.add_argument("--no-progress", action="store_false", dest="progress")
    made.add_argument("--json", action="store_true")
    return made


# --------------------------------------------------------------------------------------------------------------- sizes

def _refuse(arguments) -> None:
    """What cannot be prepared, with the reference's messages."""
    world_size = getattr(arguments, "prepare_cache_world_size", None)
    if world_size is not None and world_size <= 0:
        raise ValueError("--prepare-cache-world-size must be positive")
    if arguments.data_cache_path is None:
        raise ValueError("--data-cache-path must be provided for cache preparation")
    for name in ("mock_data", "sft", "fim_data", "step_batch_size_schedule"):
        if getattr(arguments, name, None):
            raise ValueError(f"--{name.replace('_', '-')} is not supported by tools/prepare_cache.py")


def train_iterations(arguments) -> int | None:
    """Iterations of the training; from the samples if those are given."""
    if arguments.train_iters is None and arguments.train_samples is not None:
        return arguments.train_samples // arguments.global_batch_size
    return arguments.train_iters


def target_sizes(arguments) -> list[int | None]:
    """Samples of train, valid and test that the training will ask for."""
    iterations = train_iterations(arguments)
    train = arguments.train_samples
    if train is None:
        if iterations is None:
            raise ValueError("the size of the training is not known: --train-iters or --train-samples is needed")
        train = iterations * arguments.global_batch_size
    batch = getattr(arguments, "eval_global_batch_size", None) or arguments.global_batch_size
    if getattr(arguments, "full_validation", False):
        valid = None
    elif getattr(arguments, "skip_train", False):
        valid = arguments.eval_iters * batch
    elif arguments.eval_interval <= 0:
        raise ValueError(f"--eval-interval {arguments.eval_interval} is not above zero")
    else:
        start = (getattr(arguments, "start_eval_at_iter", None) or 0) // arguments.eval_interval
        rounds = max(0, (iterations or 0) // arguments.eval_interval + 1 - start)
        valid = rounds * arguments.eval_iters * batch
    return [train, valid, arguments.eval_iters * batch]


def settle(arguments) -> None:
    """World size, data-parallel size and batch size as the training will have them."""
    if getattr(arguments, "prepare_cache_world_size", None) is not None:
        arguments.world_size = arguments.prepare_cache_world_size
    elif arguments.world_size is None:
        arguments.world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if getattr(arguments, "data_parallel_size", None) is None:
        model = arguments.tensor_model_parallel_size * arguments.pipeline_model_parallel_size * arguments.context_parallel_size
        if model <= 0 or arguments.world_size % model != 0:
            raise ValueError(f"the world size ({arguments.world_size}) is not a multiple of the total model-parallel size "
                             f"({model}: tensor x pipeline x context)")
        arguments.data_parallel_size = arguments.world_size // model
    if arguments.global_batch_size is None:
        if getattr(arguments, "micro_batch_size", None) is None:
            raise ValueError("the batch size is not known: --global-batch-size or --micro-batch-size is needed")
        arguments.global_batch_size = arguments.micro_batch_size * arguments.data_parallel_size
    if arguments.global_batch_size <= 0:
        raise ValueError(f"the global batch size is {arguments.global_batch_size}; it must be positive")
    if arguments.split is None and (arguments.data_path is not None or arguments.data_args_path is not None):
        arguments.split = LEGACY_SPLIT
        print(f"stoker index build: no --split is given; taking \"{LEGACY_SPLIT}\", as Megatron-LM does", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------- build

def _sequences(path: str | None) -> dict[str, tuple[int, int]] | None:
    if path is None:
        return None
    expected = f"{path}: expected one JSON object of prefix: [sequences, document entries]"
    with open(path, encoding="utf-8") as file:
        try:
            counts = json.load(file)
        except ValueError as error:
            raise ValueError(f"{expected} ({error})") from None
    if not isinstance(counts, dict):
        raise ValueError(f"{expected}, but it is a {type(counts).__name__}")
    for prefix, pair in counts.items():
        good = isinstance(pair, list) and len(pair) == 2 and all(type(count) is int and 0 <= count < 2**63 for count in pair)
        if not good:
            raise ValueError(f"{expected}, both from 0 to 2^63 - 1, but '{prefix}' has {json.dumps(pair)[:80]}")
    return {prefix: (sequences, entries) for prefix, (sequences, entries) in counts.items()}


def config_of(arguments) -> Any:
    """The configuration of the datasets. fast_cache_load and deferred mapping make no sense for a build, and are left off."""
    from ..megatron import GPTDatasetConfig, get_blend_and_blend_per_split
    blend, blend_per_split = get_blend_and_blend_per_split(arguments)
    if blend is None and (blend_per_split is None or not any(blend_per_split)):
        raise ValueError("no data is given: --data-path, --data-args-path, --train-data-path (valid, test) or "
                         "--per-split-data-args-path is needed")
    return GPTDatasetConfig(
        random_seed=arguments.seed, sequence_length=arguments.seq_length, blend=blend, blend_per_split=blend_per_split,
        split=arguments.split, multiple_validation_sets=arguments.multiple_validation_sets,
        full_validation=arguments.full_validation, num_dataset_builder_threads=arguments.num_dataset_builder_threads,
        path_to_cache=arguments.data_cache_path, mmap_bin_files=arguments.mmap_bin_files,
        tokenizer=tokenizer_identity.make(arguments), reset_position_ids=arguments.reset_position_ids,
        reset_attention_mask=arguments.reset_attention_mask, eod_mask_loss=arguments.eod_mask_loss,
        create_attention_mask=arguments.create_attention_mask_in_dataloader,
        object_storage_cache_path=arguments.object_storage_cache_path,
        mid_level_dataset_surplus=arguments.mid_level_dataset_surplus,
        allow_ambiguous_pad_tokens=arguments.allow_ambiguous_pad_tokens,
        sequences_per_dataset=_sequences(getattr(arguments, "per_dataset_sequences_path", None)))


def prefixes_of(config) -> list[tuple[str, str]]:
    """(split or "all", prefix), as often as datasets of it are opened."""
    if config.blend is not None:
        return [("all", prefix) for prefix in config.blend[0]]
    return [(name, prefix) for name, blend in zip(SPLITS, config.blend_per_split or []) if blend for prefix in blend[0]]


def _counting(cls: type, total: int) -> type:
    """The class, saying on stderr which prefix is begun. Its name is part of every identity, so it stays."""
    done = [0, time.monotonic()]

    def build_low_level_dataset(prefix, config):
        done[0] += 1
        if done[0] in (1, total) or time.monotonic() - done[1] >= 1:
            done[1] = time.monotonic()
            print(f"stoker index build: {done[0]} of {total}: {prefix}", file=sys.stderr, flush=True)
        return cls.build_low_level_dataset(prefix, config)

    return type(cls.__name__, (cls,), {"build_low_level_dataset": staticmethod(build_low_level_dataset)})


def _length(dataset) -> Any:
    if dataset is None:
        return None
    return [_length(one) for one in dataset] if isinstance(dataset, list) else len(dataset)


def prepare(arguments, progress: bool = False) -> dict[str, Any]:
    """Build every cache that a training with these arguments will look for; print what the reference prints.

    ``arguments`` are attributes named as in the training script; `data_parallel_size` is computed if it is None.

    Raises:
        ValueError: it is not supported, or arguments are missing or disagree.
    """
    from ..megatron import BlendedMegatronDatasetBuilder, GPTDataset
    _refuse(arguments)
    settle(arguments)
    if arguments.train_iters is None and arguments.train_samples is not None:
        print(f"setting training iterations to {train_iterations(arguments)}")
    print("> preparing dataset cache with the following effective values:")
    print(f"  world size:         {arguments.world_size}")
    print(f"  data parallel size: {arguments.data_parallel_size}")
    print(f"  global batch size:  {arguments.global_batch_size}")
    print(f"  cache path:         {arguments.data_cache_path}")
    sizes = target_sizes(arguments)
    build_checks.target_sizes(sizes)
    print(" > datasets target sizes (minimum size):")
    for label, size in zip(("train:     ", "validation:", "test:      "), sizes):
        print(f"    {label} {size}")
    for name in ("dataloader_fast_cache_load", "dataloader_defer_npy_index_mmap"):
        if getattr(arguments, name, False):
            print(f"> ignoring --{name.replace('_', '-')} during cache preparation")
    config = config_of(arguments)
    cls = _counting(GPTDataset, len(prefixes_of(config))) if progress else GPTDataset
    built = BlendedMegatronDatasetBuilder(cls, sizes, lambda: True, config).build()
    lengths = [_length(dataset) for dataset in built]
    print("> finished preparing dataset cache")
    for label, length in zip(("train dataset length:     ", "validation dataset length:", "test dataset length:      "), lengths):
        print(f"  {label} {length}")
    return dict(world_size=arguments.world_size, data_parallel_size=arguments.data_parallel_size,
                global_batch_size=arguments.global_batch_size, train_valid_test_num_samples=sizes,
                train_dataset_length=lengths[0], valid_dataset_length=lengths[1], test_dataset_length=lengths[2])


# ---------------------------------------------------------------------------------------------------------------- plan

def plan(arguments) -> dict[str, Any]:
    """Sizes of what `prepare` would build; opens the data, writes nothing."""
    from . import build_plan
    _refuse(arguments)
    settle(arguments)
    sizes = target_sizes(arguments)
    build_checks.target_sizes(sizes)
    rows = build_plan.rows(config_of(arguments), sizes)
    return dict(world_size=arguments.world_size, data_parallel_size=arguments.data_parallel_size,
                global_batch_size=arguments.global_batch_size, train_valid_test_num_samples=sizes,
                cache_bytes=sum(row["cache_bytes"] for row in rows), datasets=rows, warnings=build_plan.warnings(rows))


def print_plan(result: dict[str, Any]) -> None:
    print(f"world size {result['world_size']}, data parallel size {result['data_parallel_size']}, "
          f"global batch size {result['global_batch_size']}; target sizes: "
          + ", ".join(f"{name} {size}" for name, size in zip(SPLITS, result["train_valid_test_num_samples"])))
    print(f"{'split':<6} {'sequences':>12} {'tokens':>16} {'asked':>12} {'samples':>12} {'epochs':>7} {'cache bytes':>14}  prefix")
    for row in result["datasets"]:
        asked = "all" if row["asked"] is None else row["asked"]
        print(f"{row['split']:<6} {row['sequences']:>12} {row['tokens']:>16} {asked:>12} {row['samples']:>12} "
              f"{row['epochs']:>7} {row['cache_bytes']:>14}  {row['prefix']}")
    for warning in result["warnings"]:
        print(f"stoker index build: warning: {warning}", file=sys.stderr)
    print(f"about {result['cache_bytes']} bytes of caches in all")


def main(words: list[str]) -> int:
    arguments, rest = parser().parse_known_args(words)
    if rest and not arguments.ignore_unknown:
        raise Refusal(f"'{rest[0]}' is not known or not expected here",
                      hint="--ignore-unknown passes over the other options of a training script")
    if arguments.seq_length is None:
        raise Refusal("--seq-length is needed", hint="stoker index build --help")
    build_checks.check(arguments)
    progress = sys.stderr.isatty() if arguments.progress is None else arguments.progress
    try:
        if arguments.plan:
            result = plan(arguments)
        else:
            with contextlib.redirect_stdout(io.StringIO() if arguments.json else sys.stdout):
                result = prepare(arguments, progress)
    except (ValueError, AssertionError, KeyError) as error:
        from ..errors import StokerError
        if isinstance(error, StokerError):
            raise
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        raise Refusal(str(text)) from None
    except IndexError as error:  # the blend takes more samples than a dataset has
        raise Refusal(str(error), DATA) from None
    if arguments.json:
        print_json("stoker.index.plan/1" if arguments.plan else "stoker.index.build/1",
                   cache_path=arguments.data_cache_path, **result)
    elif arguments.plan:
        print_plan(result)
    return DONE


if __name__ == "__main__":
    sys.exit(run("index build", main))
