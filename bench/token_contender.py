# SPDX-License-Identifier: Apache-2.0
"""The work that ./dev bench tokens measures, written once for both packages: only the import differs, since stoker.megatron has
the names and the arguments of megatron.core.datasets. Started by bench/tokens.py, one process for each contender.

A task is a class with prepare() (not measured) and run() (measured; it returns what proves that the work was done).
"""

import hashlib
import json
import os
import random
import resource
import shutil
import sys
import time

import numpy

import harness

MERGE_FILES = 5


class Tokenizer:
    """What a dataset asks of a tokenizer."""

    def __init__(self, vocabulary):
        self.vocab_size = vocabulary
        self.eod = 0
        self.pad = vocabulary - 1
        self.unique_identifiers = dict(kind="bench", vocab_size=str(vocabulary))


def package(name):
    """Names of the contender's package."""
    if name == "stoker":
        import stoker.megatron as api
        return {key: getattr(api, key) for key in ("IndexedDataset", "IndexedDatasetBuilder", "GPTDataset", "GPTDatasetConfig",
                                                   "BlendedMegatronDatasetBuilder", "Split")}
    import warnings
    warnings.filterwarnings("ignore")
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from megatron.core.datasets.utils import Split
    return dict(IndexedDataset=IndexedDataset, IndexedDatasetBuilder=IndexedDatasetBuilder, GPTDataset=GPTDataset,
                GPTDatasetConfig=GPTDatasetConfig, BlendedMegatronDatasetBuilder=BlendedMegatronDatasetBuilder, Split=Split)


def digest(*arrays):
    check = hashlib.sha256()
    for array in arrays:
        check.update(numpy.ascontiguousarray(array))
    return check.hexdigest()


class Task:
    def __init__(self, form):
        self.form = form
        self.name = form["contender"]
        self.api = package(self.name) if form.get("api", True) else None
        self.folder = os.path.join(form["scratch"], self.name)

    def config(self, **extra):
        base = dict(random_seed=1234, sequence_length=self.form["sequence_length"], tokenizer=Tokenizer(50000),
                    reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False)
        return self.api["GPTDatasetConfig"](**{**base, **extra})

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def finish(self):
        return {}


class Build(Task):
    """The three index arrays of one training split, cache files included."""

    def prepare(self):
        self.built = None  # giving up the last round's is no part of this one's build
        super().prepare()
        self.data = self.api["IndexedDataset"](self.form["prefix"])
        self.settings = self.config(blend=([self.form["prefix"]], None), split="1,0,0", path_to_cache=self.folder)

    def run(self):
        indices = numpy.arange(len(self.data), dtype=numpy.int32)
        self.built = self.api["GPTDataset"](self.data, self.form["prefix"], indices, self.form["samples"],
                                            self.api["Split"].train, self.settings)

    def finish(self):
        names = ("document_index", "sample_index", "shuffle_index")
        return dict(digest=digest(*(getattr(self.built, name) for name in names)), samples=len(self.built))


class Shuffle(Task):
    def prepare(self):
        count = self.form["count"]
        self.values = numpy.arange(count, dtype=numpy.int32)

    def run(self):
        if self.name == "stoker":
            from stoker import _core
            self.values = numpy.frombuffer(_core.shuffled_range(1234, self.form["count"], "<i4"), dtype=numpy.int32)
        else:
            numpy.random.RandomState(1234).shuffle(self.values)

    def finish(self):
        return dict(digest=digest(self.values))


class Blend(Task):
    def prepare(self):
        draw = random.Random(self.form["datasets"])
        kinds = self.form["kinds"]
        weights = [draw.uniform(0.2, 5.0) for _ in range(kinds or self.form["datasets"])]
        weights = [weights[i % len(weights)] for i in range(self.form["datasets"])]
        self.weights = numpy.array(weights) / numpy.sum(weights)
        if self.name != "stoker":
            from megatron.core.datasets import helpers
            self.build = helpers.build_blending_indices

    def run(self):
        size = self.form["size"]
        if self.name == "stoker":
            from stoker import _core
            self.blend = _core.BlendIndex(self.weights.tolist(), size)
            arrays = self.blend.arrays()
            self.arrays = [numpy.frombuffer(arrays[name][0], dtype=arrays[name][1])
                           for name in ("dataset_index", "dataset_sample_index")]
        else:
            self.arrays = [numpy.zeros(size, dtype=numpy.int16), numpy.zeros(size, dtype=numpy.int64)]
            self.build(*self.arrays, self.weights, len(self.weights), size, False)

    def finish(self):
        return dict(digest=digest(*self.arrays))


class Items(Task):
    """dataset[i] for random i, one thread; or get_batch() against memcpy (stoker alone)."""

    def prepare(self):
        cache = os.path.join(self.form["scratch"], "items")
        settings = self.config(blend=([self.form["prefix"]], None), split="1,0,0", path_to_cache=cache)
        sizes = [self.form["samples"], None, None]
        if not hasattr(self, "data"):
            self.data = self.api["BlendedMegatronDatasetBuilder"](self.api["GPTDataset"], sizes, lambda: True,
                                                                  settings).build()[0]
            self.order = random.Random(7).sample(range(len(self.data)), self.form["items"])
            for index in self.order:  # everything is in memory
                self.data[index]

    def run(self):
        data = self.data
        for index in self.order:
            item = data[index]
        self.last = item

    def finish(self):
        item = self.last
        return dict(digest=digest(*(numpy.asarray(item[key]) for key in
                                                      ("tokens", "labels", "loss_mask", "position_ids"))))


class Fetched(Items):
    """The same items as PyTorch's loader fetches them, 64 at a time: by __getitems__() where the dataset has it."""

    def prepare(self):
        super().prepare()
        from torch.utils.data._utils.fetch import _MapDatasetFetcher
        self.fetcher = _MapDatasetFetcher(self.data, True, lambda items: items, False)

    def run(self):
        for at in range(0, len(self.order), 64):
            items = self.fetcher.fetch(self.order[at:at + 64])
        self.last = items[-1]


class Batches(Items):
    def prepare(self):
        super().prepare()
        size = self.form["batch"]
        self.parts = [self.order[i:i + size] for i in range(0, len(self.order) - size + 1, size)]
        if not hasattr(self, "out"):
            self.out = self.data.get_batch(self.parts[0])
            self.bytes = sum(value.nbytes for value in self.out.values())
            self.source = numpy.ones(self.bytes, dtype=numpy.uint8)
            self.target = numpy.zeros(self.bytes, dtype=numpy.uint8)

    def run(self):
        start = time.perf_counter()
        for part in self.parts:
            self.data.get_batch(part, out=self.out)
        middle = time.perf_counter()
        for _ in self.parts:
            self.target[:] = self.source
        self.batch_s, self.copy_s = middle - start, time.perf_counter() - middle

    def finish(self):
        return dict(batch_s=self.batch_s, copy_s=self.copy_s, bytes=self.bytes * len(self.parts))


class Prefixes(Task):
    """A weighted blend of many prefixes with warm caches and fast loading."""

    def prepare(self):
        prefixes = self.form["prefixes"]
        weights = [1.0 + i % 7 for i in range(len(prefixes))]
        cache = os.path.join(self.form["scratch"], "prefixes")
        self.arguments = dict(blend_per_split=[(prefixes, weights), None, None], path_to_cache=cache)
        if not self.form.get("warmed"):
            self.form["warmed"] = True
            import torch  # megatron-core 0.16 builds a missing blend only in a process group
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
            self.make(False)

    def make(self, fast):
        settings = self.config(**self.arguments, fast_cache_load=fast, defer_npy_index_mmap=fast)
        return self.api["BlendedMegatronDatasetBuilder"](self.api["GPTDataset"], [self.form["samples"], None, None],
                                                         lambda: True, settings).build()[0]

    def run(self):
        self.data = self.make(True)
        self.sums = [int(self.data[index]["tokens"].sum()) for index in range(self.form["read"])]

    def finish(self):
        return dict(length=len(self.data), sums=self.sums)


class Write(Task):
    def prepare(self):
        super().prepare()
        draw = numpy.random.default_rng(3)
        self.lengths = draw.integers(100, 2000, self.form["documents"])
        self.documents = [draw.integers(0, 50000, length, dtype=numpy.int64) for length in self.lengths] \
            if not hasattr(self, "documents") else self.documents

    def builder(self):
        extra = {"sync": self.form["sync"]} if self.name == "stoker" else {}  # megatron-core never waits for the disk
        return self.api["IndexedDatasetBuilder"](os.path.join(self.folder, "out.bin"), dtype=numpy.uint16, **extra)

    def run(self):
        builder = self.builder()
        for document in self.documents:
            builder.add_document(document, [len(document)])
        builder.finalize(os.path.join(self.folder, "out.idx"))

    def finish(self):
        return dict(digest=digest(*(numpy.fromfile(os.path.join(self.folder, f"out.{end}"), dtype=numpy.uint8)
                                    for end in ("bin", "idx"))))


class Merge(Write):
    def run(self):
        builder = self.builder()
        for _ in range(MERGE_FILES):
            builder.add_index(self.form["prefix"])
        builder.finalize(os.path.join(self.folder, "out.idx"))

    def prepare(self):
        Task.prepare(self)


TASKS = dict(build=Build, shuffle=Shuffle, blend=Blend, items=Items, fetched=Fetched, batches=Batches, prefixes=Prefixes, write=Write, merge=Merge)


def peak_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def main():
    form = json.loads(sys.argv[1])
    task = TASKS[form["task"]](form)

    def round_():
        task.prepare()
        if form.get("sync", True):
            os.sync()  # what the other contender left unwritten is not waited for by one that syncs
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak begins anew
        base, usage = peak_bytes(), resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        task.run()
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
        return dict(seconds=seconds, cpu=cpu, peak=peak_bytes() - base, **task.finish())

    harness.serve(dict(round=round_))


if __name__ == "__main__":
    main()
