# SPDX-License-Identifier: Apache-2.0
"""Types of the extension module: handles of libstoker, errors as exceptions of stoker.errors, and no policy."""

from collections.abc import Buffer, Mapping, Sequence
from os import PathLike
from typing import Any

def version() -> str: ...
def die_with_parent(parent_pid: int) -> bool: ...
def stop_builds(flag: bool, /) -> None: ...
def copy_past_cache(destination: Buffer, sources: Sequence[Buffer], /) -> None: ...
def probe(path: str | PathLike[str], exact: bool = False) -> dict[str, Any]: ...
def frames(
    path: str | PathLike[str],
    indices: Sequence[int] | None = None,
    width: int = 0,
    height: int = 0,
    seconds: Sequence[float] | None = None,
    untagged: int = 0,
    apply_sar: bool = False,
    ignore_rotation: bool = False,
    background: Sequence[int] | None = None,
    plan: bytes | None = None,
) -> tuple[bytearray, int, int, int]: ...
def frame_plan(
    path: str | PathLike[str], indices: Sequence[int] | None = None, seconds: Sequence[float] | None = None
) -> dict[str, Any]: ...
def sample_draw(seed: int, epoch: int, id: int, occurrence: int = 0, /) -> int: ...
def video_source(
    paths: Sequence[str | PathLike[str]],
    frames: int = ...,
    width: int = ...,
    height: int = ...,
    dtype: int = 0,
    layout: int = 0,
    resize: int = 0,
    short_clip: int = 0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    damaged_max: float = 0.0,
    sampling: int = 0,
    stride: int = 0,
    fps: float = 0.0,
    frames_min: int = 0,
    frames_max: int = 0,
    frame_factor: int = 0,
    rounding: int = 0,
    spread: int = 0,
    untagged: int = 0,
    apply_sar: bool = False,
    ignore_rotation: bool = False,
    background: Sequence[int] | None = None,
    count_frames: bool = False,
    mode: int = 0,
    filter: int = 0,
    augment: tuple | None = None,
    parts: bytes | bytearray | None = None,
    object: dict | None = None,
) -> Source: ...
def patch_plan(
    clip_frames: int,
    width: int,
    height: int,
    patch: int,
    merge: int,
    temporal: int,
    limits: int,
    flags: int,
    pixels_min: int,
    pixels_max: int,
    clip_pixels: int,
    frame_pixels_max: int,
) -> dict[str, Any]: ...
def frames_count(
    clip_frames: int,
    duration_s: float,
    choice: int,
    frames: int,
    rate: float,
    frames_min: int,
    frames_max: int,
    group: int,
) -> int: ...
def tubelet_plan(
    clip_frames: int, width: int, height: int, tubelet: int, patch: int, masked: float = 0.0
) -> dict[str, Any]: ...
def latent_plan(
    clip_frames: int, width: int, height: int, channels: int, stride_t: int, stride: int, patch_t: int, patch: int
) -> dict[str, Any]: ...
def patch_source(
    paths: Sequence[str | PathLike[str]],
    facts: Buffer,
    media: int,
    patch: int,
    merge: int,
    temporal: int,
    limits: int,
    flags: int,
    pixels_min: int,
    pixels_max: int,
    clip_pixels: int,
    frame_pixels_max: int,
    choice: int,
    frames: int,
    rate: float,
    frames_min: int,
    frames_max: int,
    group: int,
    mode: int,
    dtype: int,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    short_clip: int,
    damaged_max: float,
    background: Sequence[float] | None,
    ignore_orientation: bool,
    partial: int,
    max_pixels: int,
) -> Source: ...
def probe_image(image: str | PathLike[str] | Buffer) -> dict[str, Any]: ...
def read_image(
    image: str | PathLike[str] | Buffer,
    buffer: Buffer,
    width: int = 0,
    height: int = 0,
    dtype: int = 0,
    layout: int = 0,
    resize: int = 0,
    filter: int = 0,
    mode: int = 0,
    background: Sequence[float] | None = None,
    ignore_orientation: bool = False,
    partial: int = 0,
    pixels_max: int = 0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    augment: tuple | None = None,
) -> dict[str, Any]: ...
def image_source(
    paths: Sequence[str | PathLike[str]],
    width: int = 0,
    height: int = 0,
    dtype: int = 0,
    layout: int = 0,
    resize: int = 0,
    filter: int = 0,
    mode: int = 0,
    background: Sequence[float] | None = None,
    ignore_orientation: bool = False,
    partial: int = 0,
    pixels_max: int = 0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    augment: tuple | None = None,
    parts: bytes | bytearray | None = None,
    object: dict | None = None,
) -> Source: ...
def probe_audio(path: str | PathLike[str], exact: bool = False) -> dict[str, Any]: ...
def read_audio(
    path: str | PathLike[str],
    draw: int = 0,
    rate: int = 0,
    channels: int = 0,
    dtype: int = 0,
    start_s: float = 0.0,
    duration_s: float = 0.0,
    start: int = 0,
    short_sound: int = 0,
    seek: int = 0,
    mark: int = 0,
    damaged_max: float = 0.0,
    mel: tuple | None = None,
) -> tuple[bytearray, dict[str, int]]: ...
def audio_source(
    paths: Sequence[str | PathLike[str]],
    rate: int = 0,
    channels: int = 0,
    dtype: int = 0,
    start_s: float = 0.0,
    duration_s: float = 0.0,
    start: int = 0,
    short_sound: int = 0,
    seek: int = 0,
    mark: int = 0,
    damaged_max: float = 0.0,
    mel: tuple | None = None,
    parts: bytes | bytearray | None = None,
    object: dict | None = None,
) -> Source: ...
def mel_frames(mel: tuple, samples: int, /) -> int: ...
def log_mel(samples: Buffer, out: Buffer, rate: int, mel: tuple, /) -> None: ...
def process_source(argv: Sequence[str], env: Sequence[str], cwd: str, payload: Buffer, count: int = 0) -> Source: ...

class Source:
    @property
    def count(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def describe(self, id: int) -> dict[str, Any]: ...
    def materialise(self, id: int, buffer: Buffer, draw: int = 0, /) -> None: ...

class Client:
    def __init__(
        self,
        job_key: str | None = None,
        program: str | None = None,
        shm_dir: str | None = None,
        rank: int = 0,
        world_size: int = 1,
        local_rank: int = 0,
        local_world_size: int = 1,
        connect_timeout: float | None = None,
        log_level: int = 1,
        policy: str | None = None,
    ) -> None: ...
    @property
    def server_pid(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def open_loader(
        self,
        source: Source,
        num_workers: int = 1,
        batch_samples_max: int = 0,
        max_bytes: int = 0,
        on_error: int = 0,
        retries: int = 0,
        stall_limit: float | None = None,
        any_order: bool = False,
        name: str | None = None,
        isolation: int = 0,
        worker_max_bytes: int = 0,
        sample_timeout: float | None = None,
        quarantine: str | bytes | None = None,
        profile: bytes = b"",
    ) -> Loader: ...
    def status(self, timeout: float = 5.0) -> str: ...
    def drain_log(self) -> list[tuple[int, str, str, int]]: ...
    def close(self) -> None: ...

class Loader:
    def begin(self) -> None: ...
    def request(
        self,
        what: Buffer | Sequence[int],
        draws: Sequence[int] | None = None,
        samples: int = 0,
        estimate_ns: int = 0,
        part: int = 0,
        parts: int = 1,
        /,
    ) -> None: ...
    def next(self, timeout: float | None = None) -> Batch | None: ...
    def stats(self) -> dict[str, int]: ...
    def quarantine(self) -> tuple[str, int]: ...
    def close(self) -> None: ...

class Batch:
    @property
    def sequence(self) -> int: ...
    @property
    def leaf_count(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def skeleton(self) -> bytes | None: ...
    def leaf(self, index: int) -> Leaf: ...
    def region(self, skeleton_offset: int, offset: int, size: int) -> Leaf: ...

class Leaf(Buffer):
    @property
    def dtype(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int: ...
    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Slab(Buffer):
    @property
    def address(self) -> int: ...
    def __len__(self) -> int: ...

class TemplateChannel:
    def __init__(self, fd: int) -> None: ...
    def report(self, error_message: str | None = None, detail: bytes = b"") -> None: ...
    def next(self, timeout: float | None = None) -> tuple[int, int] | bool | None: ...
    def forked(self, worker_id: int, pid: int) -> None: ...
    def close(self) -> None: ...

class WorkerChannel:
    def __init__(self, fd: int) -> None: ...
    def next(self) -> tuple[int, int, bytes, Slab | None] | None: ...
    def grow(self, size: int) -> Slab: ...
    def done(self, used: int, skeleton_offset: int, skeleton_size: int, samples_skipped: int) -> None: ...
    def fail(self, status: int, message: str, detail: bytes) -> None: ...
    def close(self) -> None: ...

# Token files.

class TokenView(Buffer):
    def __len__(self) -> int: ...

class IndexedFile:
    def __new__(
        cls,
        prefix: str | PathLike[str],
        *,
        multimodal: bool = False,
        access: int = 0,
        unchecked: bool = False,
        sequences: int = 0,
        document_entries: int = 0,
        dtype_code: int = 0,
        retries: int = 0,
        retry_delay_s: float = 0.0,
        index_cache_dir: str | PathLike[str] | None = None,
        block_bytes: int = 0,
        ranges: Any = None,
        object: Mapping[str, Any] | None = None,
    ) -> IndexedFile: ...
    @property
    def count(self) -> int: ...
    @property
    def document_entries(self) -> int: ...
    @property
    def dtype_code(self) -> int: ...
    @property
    def bin_bytes(self) -> int: ...
    def lengths(self) -> TokenView: ...
    def offsets(self) -> TokenView: ...
    def documents(self) -> TokenView: ...
    def modes(self) -> TokenView | None: ...
    def bin(self) -> TokenView | None: ...
    def read(self, sequence: int, first: int, count: int, out: Buffer) -> None: ...
    def verify(self) -> None: ...
    def close(self) -> None: ...

class IndexedBuilder:
    def __new__(
        cls,
        bin_path: str | PathLike[str],
        *,
        dtype_code: int = 4,
        multimodal: bool = False,
        wrap: bool = False,
        sync: bool = True,
    ) -> IndexedBuilder: ...
    def add_item(self, buffer: Buffer, dtype_code: int, mode: int = 0) -> None: ...
    def add_document(
        self, buffer: Buffer, dtype_code: int, lengths: list[int] | Buffer, modes: Buffer | None = None
    ) -> None: ...
    def add_documents(
        self, buffer: Buffer, dtype_code: int, offsets: Buffer, modes: Buffer | None = None, eod: int | None = None
    ) -> None: ...
    def end_document(self) -> None: ...
    def add_index(self, prefix: str | PathLike[str]) -> None: ...
    def finalize(self, idx_path: str | PathLike[str]) -> None: ...
    def close(self) -> None: ...

# Objects in storage.

def object_settings(environment: Mapping[str, str]) -> dict[str, Any]: ...

class Manifest:
    def __new__(cls, path: str | PathLike[str]) -> Manifest: ...
    def __len__(self) -> int: ...
    def facts(self) -> dict[str, int]: ...
    def entry(self, index: int, /) -> dict[str, Any]: ...
    def packets(self, index: int, /) -> bytes: ...
    def paths(self) -> list[str]: ...
    def verify(
        self, depth: int = 0, jobs: int = 0, object: Mapping[str, Any] | None = None
    ) -> list[tuple[int, str]]: ...

def manifest_build(
    path: str | PathLike[str],
    sources: Sequence[str | PathLike[str]],
    *,
    jobs: int = 0,
    exact: bool = False,
    fresh: bool = False,
    progress: Any = None,
    object: Mapping[str, Any] | None = None,
) -> dict[str, int]: ...
def manifest_merge(path: str | PathLike[str], manifests: Sequence[str | PathLike[str]], /) -> None: ...

class Shard:
    def __new__(
        cls,
        location: str | PathLike[str],
        duplicates: int = 0,
        index: int = 0,
        index_path: str | PathLike[str] | None = None,
        object: Mapping[str, Any] | None = None,
    ) -> Shard: ...
    def facts(self) -> dict[str, Any]: ...
    def member(self, index: int, /) -> dict[str, Any]: ...
    def find(self, name: str, /) -> int: ...
    def sample(self, index: int, /) -> tuple[str, tuple[int, ...]]: ...
    def read(self, index: int, /) -> bytes: ...

class ObjectFile:
    def __new__(cls, url: str, object: Mapping[str, Any] | None = None) -> ObjectFile: ...
    def size(self) -> int: ...
    def read(self, offset: int, out: Buffer) -> None: ...
    def download(self, path: str | PathLike[str]) -> None: ...
    def close(self) -> None: ...

# Samples of token files.

class IndexView(Buffer): ...
class ItemBlock(Buffer): ...

class GptDataset:
    def __init__(
        self,
        file: IndexedFile | None,
        *,
        mock: tuple[int, int] | None = None,
        seed: int = 0,
        sequence_length: int = ...,
        samples: int | None = None,
        first: int = 0,
        end: int | None = None,
        split: str = "train",
        extra_token: bool = True,
        keep_partial: bool = False,
        defer: bool = False,
        folder: str | PathLike[str] | None = None,
        stem: str = "",
        description: str = "",
        assume_hit: bool = False,
        may_build: bool = True,
        wait_s: float = 0.0,
    ) -> None: ...
    def count(self) -> int: ...
    def prepare(self) -> None: ...
    def arrays(self) -> dict[str, tuple[IndexView, str, tuple[int, ...]]]: ...
    def text(self, index: int) -> tuple[bytes, bytes, bytes]: ...
    def set_form(
        self,
        *,
        pad: int = -1,
        eod: int = 0,
        reset_position_ids: bool = False,
        reset_attention_mask: bool = False,
        eod_mask_loss: bool = False,
        attention_mask: bool = False,
        position_ids: bool = True,
        documents: bool = False,
    ) -> None: ...
    def layout(self) -> dict[str, tuple[int, str, tuple[int, ...]]]: ...
    def item(self, index: int | None) -> ItemBlock: ...
    def parts(self, index: int | None) -> tuple[ItemBlock, ...]: ...
    def parts_of_many(self, indices: Sequence[int]) -> tuple[ItemBlock, ...]: ...
    def set_tensors(self, exchange: Any, constants: Mapping[str, Any]) -> None: ...
    def tensors(self, index: int | None) -> dict[str, Any]: ...
    def tensors_of_many(self, indices: Sequence[int]) -> list[dict[str, Any]]: ...
    def batch(self, indices: Sequence[int] | Buffer, out: Mapping[str, Buffer]) -> None: ...

class BlendIndex:
    def __init__(
        self,
        weights: Sequence[float] | None = None,
        size: int | None = None,
        sizes: Sequence[int] | None = None,
        *,
        limits: Sequence[int] | None = None,
        folder: str | PathLike[str] | None = None,
        stem: str = "",
        description: str = "",
        assume_hit: bool = False,
        may_build: bool = True,
        defer: bool = False,
        wait_s: float = 0.0,
    ) -> None: ...
    @property
    def built(self) -> bool: ...
    def arrays(self) -> dict[str, tuple[IndexView, str, tuple[int, ...]]]: ...
    def counts(self) -> list[int]: ...

def token_source(
    datasets: Sequence[GptDataset],
    *,
    blend: BlendIndex | None = None,
    count: int = 0,
    pad: int = -1,
    eod: int = 0,
    reset_position_ids: bool = False,
    reset_attention_mask: bool = False,
    eod_mask_loss: bool = False,
    attention_mask: bool = False,
    documents: bool = False,
) -> Source: ...
def weights_normalize(weights: Sequence[float]) -> list[float]: ...
def shuffled_range(seed: int, count: int, dtype: str) -> bytearray: ...

# Packing: ids in order of (micro-batch, rank); lengths, counts, offsets and prefix sums are buffers of 32-bit integers.

def pack_schedule(
    kind: int,
    lengths: Buffer,
    tokens_per_rank: int,
    data_ranks: int = 1,
    context_ranks: int = 1,
    stage_group: int = 1,
    linear_tokens: int = 0,
) -> list[list[list[int]]]: ...
def pack_ranks_needed(length: int, tokens_per_rank: int) -> int: ...
def pack_buckets(lengths: Buffer, tokens_per_rank: int) -> list[int]: ...
def pack_offsets(counts: Buffer) -> list[int]: ...
def pack_route(
    groups: Sequence[Sequence[Sequence[int]]], lengths: Buffer, members: Buffer, offsets: Buffer, ranks: int, rank: int
) -> dict[str, list[int]]: ...
def pack_cumulate(lengths: Buffer) -> tuple[bytearray, int]: ...
def pack_padding_mask(cu: Buffer, cu_padded: Buffer) -> bytearray: ...
def pack_slice(cu_padded: Buffer, ranks: int, rank: int) -> bytearray: ...
def pack_sequence_index(cu: Buffer, total_tokens: int) -> bytearray: ...
def pack_sum(lengths: Buffer) -> tuple[int, int]: ...

# Redistribution between ranks (stoker/balance.h). Ranks of a round are numbered from 0 within their list.

def balance_propose(
    ranks: int, owners: Sequence[int], costs: Sequence[int], transfer_cost: int = 0, min_gain_ppm: int = 0
) -> list[int]: ...
def balance_load(
    ranks: int, owners: Sequence[int], costs: Sequence[int], assignment: Sequence[int] | None = None, /
) -> int: ...
def balance_plan(ranks: int, owners: Sequence[int], assignment: Sequence[int], /) -> list[tuple[int, int, int]]: ...
def loader_gather(loader: Loader, number: int, ranks: Sequence[int], data: Buffer, /) -> None: ...
def loader_gathered(loader: Loader, number: int, timeout: float | None = None, /) -> bytes: ...
def loader_give(loader: Loader, batch: Batch, rank: int, number: int, tag: int, /) -> None: ...
def loader_take(loader: Loader, number: int, timeout: float | None = None, /) -> tuple[Batch, int]: ...

# Token-aware batches (stoker/batch.h). Arrays are bytes of uint32, loads of uint64, weights of float64.

class BatchPlanner:
    def __new__(
        cls,
        sources: list[tuple[Buffer, Buffer | None, float]],
        ranks: int,
        cells: int,
        budget_tokens: int = 0,
        budget_samples: int = 0,
        window_samples: int = 0,
        shape_count: int = 0,
        linear_tokens: int = 0,
        flags: int = 0,
        pool_samples: int = 0,
        samples: int = 0,
        seed: int = 0,
        epoch: int = 0,
    ) -> BatchPlanner: ...
    def next(self) -> dict | None: ...
    def skip(self, windows: int) -> bool: ...
    def open(self, ids: Buffer) -> None: ...
    def reweigh(self, weights: Buffer) -> None: ...

# Text: JSON lines to tokens, a block at a time (stoker/text.h).

class TextEncoder:
    def __new__(
        cls,
        keys: Sequence[str],
        rule: int = 0,
        wide: bool = False,
        id_limit: int = 0,
        eod: int = -1,
        prefix: list[int] = [],
        suffix: list[int] = [],
        guard: bytes = b"",
        cache_bytes: int = 0,
    ) -> TextEncoder: ...
    def feed(self, block: Buffer) -> tuple[int, int, int, list[tuple[int, int, int, str, int]]]: ...
    def unknown(self) -> list[str]: ...
    def learn(self, ids: list[list[int]]) -> None: ...
    def take(self, key: int) -> tuple[bytes, bytes, bytes]: ...
    def counters(self) -> tuple[int, int, int]: ...
