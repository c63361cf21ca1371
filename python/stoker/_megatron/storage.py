# SPDX-License-Identifier: Apache-2.0
"""Token files in object storage: what ``s3://``, ``http(s)://`` and ``msc://`` need besides the address.

``s3://`` and ``http(s)://`` are read in C; this module hands the environment down, because the library reads none.
``msc://`` goes through the optional package multi-storage-client, one range read each.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any

from .. import _core, errors

__all__ = ["ObjectStorageConfig", "S3Config", "exists", "get_index_cache_path", "indexed_file_options"]

_SCHEMES = ("s3://", "msc://", "http://", "https://")


@dataclasses.dataclass(frozen=True)
class ObjectStorageConfig:
    """Where the index of a dataset in object storage is kept, and how its data are cached.

    Args:
        path_to_idx_cache: folder on this host, or shared, that index files are copied to.
        bin_chunk_nbytes: size of the cached blocks of data. Random access wants small ones: each miss fetches one.
    """

    path_to_idx_cache: str
    bin_chunk_nbytes: int = 256 * 1024 * 1024


S3Config = ObjectStorageConfig  # Megatron-LM's older name


def get_index_cache_path(idx_path: str, config: ObjectStorageConfig) -> str:
    """Where the copy of an index lies: the folder joined with the address without its scheme.

    >>> get_index_cache_path("s3://b/k/x.idx", ObjectStorageConfig("cache/dir"))
    'cache/dir/b/k/x.idx'
    """
    for scheme in _SCHEMES:
        if idx_path.startswith(scheme):
            return os.path.join(config.path_to_idx_cache, idx_path.removeprefix(scheme))
    raise errors.CallerError(f"{idx_path!r} is no address of an object: expected one of {', '.join(_SCHEMES)}")


class _MultiStorageClient:
    """Range reads through multi-storage-client, which caches and tries again by its own configuration."""

    def __init__(self) -> None:
        try:
            import multistorageclient
            from multistorageclient.types import Range
        except ImportError as error:
            raise errors.UnsupportedError("msc:// needs the package multi-storage-client") from error
        self._resolve, self._range = multistorageclient.resolve_storage_client, Range
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[Any, str]] = {}

    def _client(self, url: str) -> tuple[Any, str]:
        with self._lock:
            if url not in self._clients:
                self._clients[url] = self._resolve(url)
            return self._clients[url]

    def size(self, url: str) -> int:
        client, path = self._client(url)
        return client.info(path).content_length

    def read(self, url: str, offset: int, size: int) -> Any:
        client, path = self._client(url)
        return client.read(path, byte_range=self._range(offset=offset, size=size))


def _is_msc(url: str) -> bool:
    return url.startswith("msc://")


def _block_bytes(config: Any) -> int:
    """STOKER_OBJECT_BLOCK_BYTES comes first: a GPTDatasetConfig has no member for the size of blocks."""
    text = os.environ.get("STOKER_OBJECT_BLOCK_BYTES")
    if not text:
        return getattr(config, "bin_chunk_nbytes", 0)
    if not text.isdecimal() or int(text) == 0:
        raise errors.CallerError(f"STOKER_OBJECT_BLOCK_BYTES is {text!r}; expected a number of bytes")
    return int(text)


def indexed_file_options(path_prefix: str, config: Any) -> dict[str, Any]:
    """Arguments of ``_core.IndexedFile`` for a dataset in object storage."""
    options: dict[str, Any] = {"index_cache_dir": config.path_to_idx_cache, "block_bytes": _block_bytes(config)}
    if _is_msc(path_prefix):
        options["ranges"] = _MultiStorageClient()
    else:
        options["object"] = _core.object_settings(os.environ)
    return options


def exists(url: str) -> bool:
    """Is there such an object? Refused access and servers that do not answer are errors, not a no."""
    try:
        if _is_msc(url):
            _MultiStorageClient().size(url)
        else:
            _core.ObjectFile(url, _core.object_settings(os.environ)).size()
    except FileNotFoundError:
        return False
    except errors.StokerError as error:
        if error.status == "NOT_FOUND":
            return False
        raise
    return True
