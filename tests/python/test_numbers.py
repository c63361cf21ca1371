# SPDX-License-Identifier: Apache-2.0
"""Numbers and names that C cannot hold: none is read as another one, and each is named."""

import numpy
import pytest
from datasets import CLIPS

from stoker import _core, errors
from stoker.audio import AudioDataset
from stoker.media import ImageDataset, VideoDataset, decode_plan, read_frames

CLIP = CLIPS[0]


class Index:
    def __index__(self):
        return 32


def test_numbers_of_every_width_are_checked():
    for wrong in (2**32, -1, 2**64, -(2**70)):
        with pytest.raises(OverflowError, match=f"width={wrong} is not between 0 and 4294967295"):
            _core.frames(CLIP, width=wrong, height=8)
    for wrong in (2**64, -1, 2**200):
        with pytest.raises(OverflowError, match=f"count={wrong} is not between 0 and 18446744073709551615"):
            _core.process_source([b"a"], [], "/", b"x", wrong)
    for wrong in ("8", 8.0, None):
        with pytest.raises(TypeError, match=f"width={wrong!r} is no whole number"):
            _core.frames(CLIP, width=wrong, height=8)
    for good in (32, numpy.int64(32), numpy.uint8(32), Index()):
        assert _core.frames(CLIP, indices=[0], width=good, height=good)[1:] == (1, 32, 32)
    assert _core.process_source([b"a"], [], "/", b"x", 2**64 - 1) is not None


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda n: _core.pack_ranks_needed(1, n), "tokens_per_rank"),
        (lambda n: _core.video_source([CLIP], frames=n), "frames"),
        (lambda n: _core.image_source([CLIP], width=n), "width"),
        (lambda n: _core.audio_source([CLIP], rate=n), "rate"),
        (lambda n: _core.balance_propose(n, [0], [1]), "ranks"),
        (lambda n: _core.Client(rank=n), "rank"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_argument_is_named(call, name):
    with pytest.raises(OverflowError, match=rf"^{name}={2**32 + 1} is not between 0 and 4294967295$"):
        call(2**32 + 1)


@pytest.mark.parametrize("call", [read_frames, decode_plan], ids=["read_frames", "decode_plan"])
@pytest.mark.parametrize("wrong", [-1, 2**63, -(2**64)])
def test_numbers_of_frames_are_checked(call, wrong):
    with pytest.raises(errors.CallerError, match=f"indices: frame {wrong} of a clip, whose frames are numbered from 0"):
        call(CLIP, indices=[0, wrong])
    with pytest.raises(errors.CallerError, match="frame 100000"):
        call(CLIP, indices=[100000])


@pytest.mark.parametrize("kind", ["VideoDataset", "ImageDataset", "AudioDataset"])
def test_a_zero_byte_in_a_path_is_named(kind):
    makers = {
        "VideoDataset": lambda paths: VideoDataset(paths, frames=2, size=8),
        "ImageDataset": lambda paths: ImageDataset(paths, size=8),
        "AudioDataset": lambda paths: AudioDataset(paths, seconds=1),
    }
    for wrong in ("/a\0b.mp4", b"/a\0b.mp4"):
        with pytest.raises(ValueError, match=r"'/a\\x00b.mp4' is no path: it holds a zero byte"):
            makers[kind]([CLIP, wrong])[0]
    with pytest.raises(ValueError):
        makers[kind]("/a\0b.mp4")[0]
