# SPDX-License-Identifier: Apache-2.0
"""The loaders that are compared: stoker, and torch's DataLoader over PyAV or torchcodec in their tuned forms.

All of them give the same tensors from the same clips: N frames chosen uniformly by presentation order, the short side scaled
to the output side, the centre cropped, T,C,H,W, uint8 or float32 normalised. The stock datasets get every advantage that a
careful user can give them: one decoder thread, only wanted frames converted, planar RGB straight from the scaler into the
sample's own tensor, and the table of frames of every clip made once, before the clock starts. GRID holds the settings among
which each cell chooses the best for each baseline; it is fixed here, before any run.

Run as a program it is one contender in a process of its own, driven by bench/loader.py over pipes (see main()).
"""

import itertools
import json
import os
import sys
import time

import numpy
import torch

import harness

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
WORKERS = 2

GRID = {
    # access: decode from the start, or seek to the key frame before a wanted frame where that skips one.
    "pyav": [dict(access=access, prefetch_factor=depth) for access in ("sequential", "seek") for depth in (2, 4)],
    "torchcodec": [dict(access=access, prefetch_factor=depth) for access in ("exact", "approximate") for depth in (2, 4)],
    "stoker": [dict(prefetch_factor=4)],  # nothing is tuned for ours: the depth of the deeper baselines
}


def uniform_indices(frames, count):
    """Indices rint(i*(n-1)/(N-1)), half to even; a clip with fewer frames keeps all and repeats its last."""
    if frames <= count:
        return [min(index, frames - 1) for index in range(count)]
    if count == 1:
        return [0]
    return [round(index * (frames - 1) / (count - 1)) for index in range(count)]


def scaled_size(width, height, side):
    """Size whose short side is `side`, aspect ratio kept, the long side cut to whole pixels as public processors do."""
    if width <= height:
        return side, max(side, height * side // width)
    return max(side, width * side // height), side


def coefficients(dtype):
    """Per channel a, b of x*a + b for uint8 x; None for uint8 output."""
    if dtype == "uint8":
        return None
    scale = torch.tensor([1 / (255 * std) for std in STD], dtype=torch.float32)
    shift = torch.tensor([-mean / std for mean, std in zip(MEAN, STD)], dtype=torch.float32)
    return scale, shift


# ----------------------------------------------------------------------------------------------------------------- PyAV

def scan(path):
    """Presented frames of a clip from its packets: (pts or None) in presentation order, positions of key frames."""
    import av
    with av.open(path) as container:
        stream = container.streams.video[0]
        packets = [packet for packet in container.demux(stream) if packet.size and not packet.is_discard]
        pts = [packet.pts for packet in packets]
        if any(value is None for value in pts) or len(set(pts)) != len(pts):
            return dict(count=len(packets), pts=None, keys=[], width=stream.width, height=stream.height)
        order = sorted(range(len(packets)), key=lambda position: pts[position])
        keys = [rank for rank, position in enumerate(order) if packets[position].is_keyframe]
        return dict(count=len(packets), pts=[pts[position] for position in order], keys=keys, width=stream.width,
                    height=stream.height)


class StockVideos(torch.utils.data.Dataset):
    """What both stock datasets share: the table of clips, and the form of a sample."""

    def __init__(self, paths, frames, side, dtype, access):
        self.paths, self.frames, self.side, self.access = paths, frames, side, access
        self.dtype = getattr(torch, dtype)
        self.affine = coefficients(dtype)
        self.tables = [scan(path) for path in paths]
        self.wanted = [uniform_indices(table["count"], frames) for table in self.tables]

    def __len__(self):
        return len(self.paths)

    def normalise(self, sample):
        if self.affine is not None:
            scale, shift = self.affine
            sample.mul_(scale.view(1, 3, 1, 1)).add_(shift.view(1, 3, 1, 1))
        return sample


class PyavVideos(StockVideos):
    """Decode with PyAV: frame by frame in one thread, wanted frames alone go through the scaler."""

    def __getitem__(self, index):
        import av
        from av.video.reformatter import VideoReformatter
        table, wanted = self.tables[index], self.wanted[index]
        width, height = scaled_size(table["width"], table["height"], self.side)
        left, top = round((width - self.side) / 2), round((height - self.side) / 2)
        rows, columns = slice(top, top + self.side), slice(left, left + self.side)
        sample = torch.empty((self.frames, 3, self.side, self.side), dtype=self.dtype)
        scaler = VideoReformatter()
        with av.open(self.paths[index]) as container:
            stream = container.streams.video[0]
            stream.thread_type = "NONE"
            stream.codec_context.thread_count = 1
            place = 0
            for ordinal, frame in self.decode(container, stream, table, wanted):
                picture = scaler.reformat(frame, width, height, "gbrp", interpolation="BILINEAR", threads=1)
                for channel, plane in zip((1, 2, 0), picture.planes):  # planes come as G, B, R
                    pixels = numpy.frombuffer(plane, numpy.uint8).reshape(height, plane.line_size)
                    sample[place, channel].copy_(torch.from_numpy(pixels[rows, columns]))
                place += 1
                while place < self.frames and wanted[place] == ordinal:
                    sample[place].copy_(sample[place - 1])
                    place += 1
        if place != self.frames:
            raise RuntimeError(f"{self.paths[index]}: {place} of {self.frames} frames")
        return self.normalise(sample)

    def decode(self, container, stream, table, wanted):
        """The wanted frames in order, each once: (position, frame)."""
        distinct = sorted(set(wanted))
        if self.access == "sequential" or table["pts"] is None:
            last, following = distinct[-1], iter(distinct)
            target = next(following)
            for ordinal, frame in enumerate(container.decode(stream)):
                if ordinal == target:
                    yield ordinal, frame
                    if ordinal == last:
                        return
                    target = next(following)
            return
        position_of = {pts: ordinal for ordinal, pts in enumerate(table["pts"])}
        keys, frames, here = table["keys"], None, -1
        for target in distinct:
            key = max((key for key in keys if key <= target), default=0)
            if frames is None or key > here + 1:
                if key > 0 or frames is not None:
                    container.seek(table["pts"][key], stream=stream, backward=True, any_frame=False)
                frames = container.decode(stream)
            for frame in frames:
                here = position_of.get(frame.pts, -1)
                if here >= target:
                    break
            if here != target:
                raise RuntimeError(f"seek found frame {here} for {target}")
            yield target, frame


# ----------------------------------------------------------------------------------------------------------- torchcodec

def without_broken_torchvision():
    """torchcodec looks for torchvision and does without; but a wheel for CUDA beside a torch for CPUs fails on import."""
    if "torchvision" in sys.modules:
        return
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        sys.modules["torchvision"] = None  # what imports it from now on is told that it is not there


class TorchcodecVideos(StockVideos):
    """Decode with torchcodec: one FFmpeg thread, wanted indices, its own resize and crop inside the decoder."""

    def __getitem__(self, index):
        without_broken_torchvision()
        from torchcodec.decoders import VideoDecoder
        from torchcodec.transforms import CenterCrop, Resize
        table, wanted = self.tables[index], self.wanted[index]
        width, height = scaled_size(table["width"], table["height"], self.side)
        decoder = VideoDecoder(self.paths[index], num_ffmpeg_threads=1, seek_mode=self.access, dimension_order="NCHW",
                               transforms=[Resize((height, width)), CenterCrop((self.side, self.side))])
        if self.access == "approximate":
            # Its frame count comes from the header there, and may be one short.
            wanted = [min(position, decoder.metadata.num_frames - 1) for position in wanted]
        sample = decoder.get_frames_at(wanted).data
        return self.normalise(sample.to(self.dtype))


# -------------------------------------------------------------------------------------------------------------- loaders

class Order(torch.utils.data.Sampler):
    """A fixed order of sample ids; the same object serves every loader."""

    def __init__(self, ids):
        self.ids = ids

    def __iter__(self):
        return iter(self.ids)

    def __len__(self):
        return len(self.ids)


def one_thread(_worker):
    torch.set_num_threads(1)


def make_loader(name, setting, paths, frames, side, dtype, batch_size, order, workers=WORKERS, **extra):
    """One loader; epochs reuse its workers."""
    if name == "stoker":
        from stoker.media import VideoDataset
        from stoker.torch import DistributedDataLoader
        normal = {} if dtype == "uint8" else dict(mean=MEAN, std=STD)
        dataset = VideoDataset(paths, frames=frames, size=side, dtype=dtype, **normal)
        return DistributedDataLoader(dataset, batch_size=batch_size, sampler=Order(order), num_workers=workers,
                                     persistent_workers=True, **setting, **extra)
    kind = PyavVideos if name == "pyav" else TorchcodecVideos
    dataset = kind(paths, frames, side, dtype, setting["access"])
    return torch.utils.data.DataLoader(dataset, batch_size=batch_size, sampler=Order(order), num_workers=workers,
                                       prefetch_factor=setting["prefetch_factor"], persistent_workers=True,
                                       worker_init_fn=one_thread, **extra)


def touch(batch):
    """Read one byte of every page, as a copy to a device would."""
    return int(batch.view(torch.uint8).reshape(-1)[::4096].sum(dtype=torch.int64))


def signature(batch):
    """Mean of each frame and channel of each sample, in levels of 0..255: tells samples and frames apart."""
    values = batch.to(torch.float32)
    if batch.dtype != torch.uint8:
        scale, shift = coefficients("float32")
        values = (values - shift.view(1, 1, 3, 1, 1)) / scale.view(1, 1, 3, 1, 1)
    return values.mean(dim=(3, 4)).tolist()


def main():
    """Argument: one JSON object, the arguments of make_loader(). Commands: `first`, `check`, `epoch`."""
    torch.set_num_threads(1)
    form = json.loads(sys.argv[1])
    loader = make_loader(**form)

    def first():
        path = os.path.join(os.environ["STOKER_BENCH_SCRATCH"], f"{form['name']}.npy")
        numpy.save(path, next(iter(loader)).numpy())
        return dict(path=path)

    def check():
        return dict(signature=list(itertools.chain.from_iterable(signature(batch) for batch in loader)))

    def epoch():
        start = time.perf_counter()
        samples = 0
        for batch in loader:
            touch(batch)
            samples += len(batch)
            del batch  # the consumer holds one batch at a time, whatever the loader
        return dict(seconds=time.perf_counter() - start, samples=samples)

    harness.serve(dict(first=first, check=check, epoch=epoch))


if __name__ == "__main__":
    main()
