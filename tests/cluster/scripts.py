# SPDX-License-Identifier: Apache-2.0
"""What the scripts of ranks begin with: imports, a Python dataset, a native one, and how to tell what came."""

import pathlib
import textwrap

MIB = 1 << 20
CLIPS = pathlib.Path(__file__).resolve().parent.parent / "golden" / "media"

# A Python dataset whose sample i is recognisable; a native one over clips of the golden set.
PRELUDE = f"""
    import os, signal, sys, time
    import torch
    from stoker.torch import DistributedDataLoader

    class Numbers(torch.utils.data.Dataset):
        def __init__(self, count, size=1000, cost_s=0.0):
            self.count, self.size, self.cost_s = count, size, cost_s
        def __len__(self):
            return self.count
        def __getitem__(self, i):
            if self.cost_s:
                time.sleep(self.cost_s)
            return torch.full((self.size,), i, dtype=torch.int64)

    def clips(count, **form):
        from stoker.media import VideoDataset
        names = ["h264_bframes_g12.mp4", "vfr.mp4", "editlist_cut.mp4"]
        paths = [os.path.join({str(CLIPS)!r}, names[i % len(names)]) for i in range(count)]
        return VideoDataset(paths, **{{"frames": 8, "size": 112, "return_index": True, **form}})

    def ids(batch):
        return batch[1].tolist() if isinstance(batch, (list, tuple)) else batch[:, 0].tolist()

    def say(*words):
        print(*words, flush=True)
"""


def with_prelude(body):
    return textwrap.dedent(PRELUDE) + textwrap.dedent(body)


def script(runtime, body, *arguments, **options):
    return runtime.script(with_prelude(body), *arguments, **options)
