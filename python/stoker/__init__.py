# SPDX-License-Identifier: Apache-2.0
"""stoker keeps every training rank's next batch ready before the rank asks for it.

``stoker.torch.DistributedDataLoader`` is the loader for PyTorch, ``stoker.media.VideoDataset`` a dataset of video
files that is decoded in C, ``stoker.megatron`` has Megatron-LM's dataset classes and ``stoker.packing`` its packing.
Those of them that need PyTorch import it; ``import stoker`` does not. NumPy is imported only where arrays are made.
"""

from . import errors
from .errors import SampleError, StokerError

__all__ = ["SampleError", "StokerError", "__version__", "errors"]

__version__ = "0.1.0"
