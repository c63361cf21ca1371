# SPDX-License-Identifier: Apache-2.0
"""One rank of a contender of ./dev bench schedule, in a process of its own, driven by bench/schedule.py over pipes.

The training loop is the same for every loader: next(), read every page, sleep for the window of the batch's tokens,
wait for the other ranks. All times are taken here. What is asked when is seen by the batch sampler that all loaders are
given; which sample it is, and when it was done, its worker writes beside it. The monotonic clock is one for all processes.
"""

import collections
import json
import math
import os
import random
import sys
import time

import torch

PAYLOAD_BYTES = 256 * 1024
WAIT_FLOOR_S = 0.010
WAIT_SHARE = 0.02  # of the nominal window
MIN_GAIN = 0.05  # of tier 2's gate
MAX_BYTES = 8 << 30  # of both stoker contenders, on the host: what bounds them is the batches in flight, as in DataLoader
PREDICTION_SIGMA = 0.1  # what estimate_cost() errs by, as the logarithm; near what is measured of real decoders

# frames, side, and millions of pixels of one source frame: clips near the target size.
FORMS = {"small": (16, 224, 0.085), "mid": (32, 336, 0.21), "large": (64, 448, 0.31)}
OPENVID_MPX, TAIL_MPX, TAIL_SHARE = 0.92, 1.6, 0.02


def tokens_of(family, frames, side):
    if family == "videomae":  # tubes of 2 frames, patches of 16
        return frames // 2 * (side // 16) ** 2
    enlarged = max(336, side // 28 * 28)  # qwen-vl: merged patches of 28, at least 144 a frame
    return frames // 2 * (enlarged // 28) ** 2


def workload(cell):
    """Of each sample of an emulated cell: form, tokens, seconds of one worker, and what is predicted. All is seeded.

    Costs have the shape of real decoding (H.264 by pixels and bytes in and pixels out, durations, 2 % of clips that are
    long and of high definition); their mean is set so that all workers are busy for `load` of the mean window.
    """
    rng = random.Random(f"{cell['seed']}/{cell['name']}")
    data, family = cell["name"].split("/")
    source, mix = data.split("-")
    names = list(FORMS) if mix == "mixed" else [mix]
    forms, costs = [], []
    for index in range(cell["samples"]):
        frames, side, mpx = FORMS[names[index % len(names)]]
        tail, share, size, rate, noise = rng.random(), rng.random(), rng.random(), rng.gauss(0, 0.5), rng.gauss(0, 0.05)
        seconds = 20 + 40 * share if tail < TAIL_SHARE else 3 + 7 * share if source == "openvid" else 2 + 8 * share
        mpx = TAIL_MPX if tail < TAIL_SHARE else OPENVID_MPX if source == "openvid" else mpx
        pixels = 25 * seconds * mpx * (0.75 + 0.5 * size)
        cost = 1.5 + 0.95 * pixels + 92 * 0.010 * pixels * math.exp(rate) + 2.7 * frames * side * side / 1e6
        forms.append((frames, side))
        costs.append(cost * math.exp(noise))
    tokens = [tokens_of(family, *form) for form in forms]
    scale = cell["load"] * cell["window_s"] / cell["batch"] * cell["workers"] / (sum(costs) / len(costs))
    costs = [cost * scale for cost in costs]
    predicted = [cost * math.exp(rng.gauss(0, PREDICTION_SIGMA)) for cost in costs]
    return forms, tokens, costs, predicted


class Emulated(torch.utils.data.Dataset):
    """Sample i sleeps as long as it is said to cost, so that more workers than cores can be compared."""

    def __init__(self, cell):
        self.forms, self.tokens, self.costs, self.predicted = workload(cell)

    def __len__(self):
        return len(self.costs)

    def estimate_cost(self, index):
        return self.predicted[index]

    def __getitem__(self, index):
        time.sleep(self.costs[index])
        return torch.full((PAYLOAD_BYTES,), index % 251, dtype=torch.uint8), index, time.monotonic()


class Decoded(torch.utils.data.Dataset):
    """Sample i is a clip in one of three forms; `parts` has a dataset of each form, ours or the baseline's."""

    def __init__(self, cell, make):
        names = sorted(FORMS)
        clips = {name: [clip["path"] for clip in cell["clips"] if clip["form"] == name] for name in names}
        self.parts = {name: make(clips[name], *FORMS[name][:2]) for name in names}
        seen = collections.Counter()
        self.where = []
        for clip in cell["clips"]:
            self.where.append((clip["form"], seen[clip["form"]]))
            seen[clip["form"]] += 1
        self.forms = [FORMS[clip["form"]][:2] for clip in cell["clips"]]
        self.tokens = [tokens_of("videomae", *form) for form in self.forms]

    def __len__(self):
        return len(self.where)

    def estimate_cost(self, index):
        frames, side = self.forms[index]
        return frames * side * side * 1e-8  # what the form says; clips of one form differ, and are not opened for it

    def __getitem__(self, index):
        name, position = self.where[index]
        return self.parts[name][position], index, time.monotonic()


class Watched:
    """A batch sampler that remembers what it gave out, and when."""

    def __init__(self, inner, epochs_of):
        self.inner, self.epochs_of, self.batch_size = inner, epochs_of, inner.batch_size
        self.given = []

    def set_epoch(self, epoch):
        self.epochs_of.set_epoch(epoch)

    def __len__(self):
        return len(self.inner)

    def __iter__(self):
        for ids in self.inner:
            self.given.append((time.monotonic(), list(ids)))
            yield ids


def tokens_feature(tokens):
    """feature_fn of tier 2: what the ranks are to have equally much of."""
    return lambda sample: {"tokens": tokens[sample[1]]}


class Side:
    """One contender's loader of one cell."""

    def __init__(self, cell):
        self.cell, self.rank, self.ranks = cell, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.real = cell["kind"] == "real decode"
        ours = cell["contender"] != "torch"
        dataset = self.dataset(ours)
        self.forms, self.tokens = dataset.forms, dataset.tokens
        self.costs = None if self.real else dataset.costs
        self.token_s = cell["window_s"] / cell["batch"] / (sum(self.tokens) / cell["samples"])
        self.sampler = self.make_sampler(cell["contender"] == "stoker")
        self.loader = self.open(dataset, ours)

    def dataset(self, ours):
        if not self.real:
            return Emulated(self.cell)
        import contenders
        if ours:
            from stoker.media import VideoDataset
            return Decoded(self.cell, lambda paths, frames, side: VideoDataset(paths, frames=frames, size=side))
        return Decoded(self.cell, lambda paths, *form: contenders.PyavVideos(paths, *form, "uint8", "seek"))

    def make_sampler(self, planned):
        cell = self.cell
        if planned:
            from stoker.samplers import TokenAwareBatchSampler
            inner = TokenAwareBatchSampler(self.tokens, cell["batch"], shapes=self.forms, num_replicas=self.ranks,
                                           rank=self.rank, seed=cell["seed"], drop_last=True)
            return Watched(inner, inner)
        stock = torch.utils.data.DistributedSampler(range(cell["samples"]), self.ranks, self.rank, shuffle=True,
                                                    seed=cell["seed"], drop_last=True)
        return Watched(torch.utils.data.BatchSampler(stock, cell["batch"], drop_last=True), stock)

    def open(self, dataset, ours):
        cell, setting = self.cell, dict(self.cell["setting"])
        share = setting.pop("round_batches", 0)  # of a rank, in a round of tier 2
        common = dict(batch_sampler=self.sampler, num_workers=cell["workers"], persistent_workers=True, **setting)
        if self.real:
            common["collate_fn"] = list  # samples have several forms
        if not ours:
            import contenders
            return torch.utils.data.DataLoader(dataset, worker_init_fn=contenders.one_thread, **common)
        from stoker.torch import DistributedDataLoader
        if share:
            common["load_balance_config"] = {
                "feature_fn": tokens_feature(self.tokens), "buffer_size": share * cell["batch"] * self.ranks,
                "args": {"min_gain": MIN_GAIN}}
        return DistributedDataLoader(dataset, name=cell["name"], max_bytes=MAX_BYTES, **common)

    def split(self, item):
        """(tensors, ids, when the last sample was done) of what the loader gave."""
        if self.real:
            return [sample[0] for sample in item], [sample[1] for sample in item], max(sample[2] for sample in item)
        data, got, done = item
        ids = got.tolist()
        if data[:, 0].tolist() != [index % 251 for index in ids]:
            raise RuntimeError(f"{self.cell['contender']}: samples {ids} are not what they should be")
        return [data], ids, float(done.max())

    def epoch(self, number):
        """Every step of one epoch; those after the warm ones are measured."""
        cell = self.cell
        self.sampler.given.clear()
        self.sampler.set_epoch(number)
        if hasattr(self.loader, "set_epoch"):
            self.loader.set_epoch(number)
        miss_s = max(WAIT_FLOOR_S, WAIT_SHARE * cell["window_s"])
        waits, done, windows, delivered, batches = [], [], [], [], []
        iterator, begun_s = iter(self.loader), 0.0
        for step in range(cell["samples"] // (self.ranks * cell["batch"])):
            if step == cell["warm"]:
                torch.distributed.barrier()
                begun_s = time.monotonic()
            asked_s = time.monotonic()
            item = next(iterator)
            wait_s = time.monotonic() - asked_s
            tensors, ids, done_s = self.split(item)
            for tensor in tensors:
                tensor.view(-1)[::4096].sum(dtype=torch.int64)  # reads every page, as a copy to a device would
            del item, tensors, tensor
            window_s = self.token_s * sum(self.tokens[index] for index in ids)
            delivered += ids
            if step >= cell["warm"]:
                waits.append(wait_s)
                done.append(done_s)
                windows.append(window_s)
                batches.append(ids)
            time.sleep(window_s)
            torch.distributed.barrier()
        seconds = time.monotonic() - begun_s
        if next(iterator, None) is not None:
            raise RuntimeError("the loader gave more than was planned")
        return dict(seconds=seconds, waits=waits, windows=windows, delivered=delivered, batches=batches, done=done,
                    asked=self.sampler.given, misses=sum(wait > miss_s for wait in waits),
                    work_s=sum(self.costs) if self.costs else None)

    def status(self):
        """What the DataServer says of its engine and of this rank's loader."""
        if self.cell["contender"] == "torch":
            return {}
        from stoker import _plane
        told = json.loads(_plane.held().status())
        mine = [entry for entry in told["loaders"] if entry["rank"] == self.rank and entry["name"] == self.cell["name"]]
        return dict(engine=told.get("engine"), loader=mine[0] if mine else None, stats=self.loader.stats())

    def close(self):
        if hasattr(self.loader, "close"):
            self.loader.close()
        self.loader = None


def main():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may write among the replies
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    side = None
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "open":
            side, answer = Side(order["cell"]), {}
        elif order["do"] == "epoch":
            answer = side.epoch(order["number"])
        elif order["do"] == "status":
            answer = side.status()
        else:
            side, answer = side.close(), {}
        replies.write(json.dumps(answer) + "\n")
        replies.flush()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
