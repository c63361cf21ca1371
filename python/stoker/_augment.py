# SPDX-License-Identifier: Apache-2.0
"""Random changes of pictures, as part of the form of a dataset. Formulas: docs/reference/transforms.md."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence

from . import _files, errors

__all__ = ["Augment"]

_CROPS = {"centre": 0, "random": 1, "resized": 2}
_JITTER_MAX = 255


@dataclasses.dataclass(frozen=True)
class Augment:
    """What of a picture is random. All frames of a clip are changed alike; what is chosen is a function of (seed, epoch,
    index, earlier uses of the index in this epoch), whichever worker makes the sample.

    Attributes:
        crop: ``"centre"``; ``"random"``, any part of the scaled picture; or ``"resized"``, a part of the picture of
            random area and shape, scaled to the output (``resize`` is not looked at then).
        crop_pad: with ``crop="random"``: pixels that are added on each side before the crop.
        pad_colour: R, G, B of pixels that are added, by ``crop_pad`` or ``resize="pad"``.
        scale, ratio: with ``crop="resized"``: smallest and largest share of the area, and ratio of width to height.
        flip: how likely the picture is mirrored left to right.
        brightness, contrast, saturation: j: times a factor from ``max(0, 1 - j)`` to ``1 + j``.
        hue: h: turned by ``-h`` to ``h`` of the circle, at most 0.5.

    Raises :class:`stoker.errors.CallerError` for a value that is none of these, when it is made.
    """

    crop: str = "centre"
    crop_pad: int = 0
    pad_colour: Sequence[int] = (0, 0, 0)
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    flip: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self) -> None:
        _files.choice("crop", self.crop, _CROPS)
        if not (operator.index(self.crop_pad) == 0 or (self.crop_pad > 0 and self.crop == "random")):
            raise errors.CallerError(f"crop_pad is {self.crop_pad}, expected 0, or more with crop='random'")
        colour = tuple(map(operator.index, self.pad_colour))
        if len(colour) != 3 or not all(0 <= part <= 255 for part in colour):
            raise errors.CallerError(f"pad_colour is {self.pad_colour!r}, expected R, G, B from 0 to 255")
        self._check_range("scale", 0, 1)
        self._check_range("ratio", 1 / 256, 256)
        jitters = {name: _JITTER_MAX for name in ("brightness", "contrast", "saturation")}
        for name, most in ({"flip": 1} | jitters | {"hue": 0.5}).items():
            if not 0 <= getattr(self, name) <= most:
                raise errors.CallerError(f"{name} is {getattr(self, name)}, expected 0 to {most}")

    def _check_range(self, name: str, least: float, most: float) -> None:
        pair = tuple(getattr(self, name))
        if len(pair) != 2 or not (least <= pair[0] <= pair[1] <= most and pair[0] > 0):
            raise errors.CallerError(f"{name} is {pair}, expected the smallest and the largest, in {least:g} to {most}")

    @property
    def is_random(self) -> bool:
        return self.crop != "centre" or any((self.flip, self.brightness, self.contrast, self.saturation, self.hue))

    def _arguments(self) -> tuple:
        """Of the C functions."""
        return (
            _files.choice("crop", self.crop, _CROPS),
            operator.index(self.crop_pad),
            tuple(map(operator.index, self.pad_colour)),
            *map(float, (*self.scale, *self.ratio)),
            *map(float, (self.flip, self.brightness, self.contrast, self.saturation, self.hue)),
        )


def arguments(augment: Augment | None) -> tuple | None:
    return None if augment is None else augment._arguments()
