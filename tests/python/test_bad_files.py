# SPDX-License-Identifier: Apache-2.0
"""Broken files, isolated decoders and settings that cannot work: each is a clear error, never a hang or a surprise."""

import json
import logging
import math
import os
import pathlib
import signal
import socket
import sqlite3

import pytest
import support
import torch
from support import finish, wait_until

import stoker
from stoker import _plane, errors
from stoker.media import VideoDataset
from stoker.torch import DistributedDataLoader

pytestmark = pytest.mark.limit(120)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/media"
GOOD = str(GOLDEN / "h264_bframes_g12.mp4")
FORM = dict(frames=4, size=32)


def _loader(paths, **options):
    return DistributedDataLoader(VideoDataset(paths, **FORM), **{"batch_size": 2, "num_workers": 1, **options})


@pytest.mark.parametrize("isolation", ["auto", "off"])
def test_c4_golden_files_decode_the_same_with_and_without_isolation(isolation):
    names = sorted(name for name in os.listdir(GOLDEN) if not name.endswith(".json"))
    dataset = VideoDataset([GOLDEN / name for name in names], damaged_max=1.0, **FORM)
    loader = DistributedDataLoader(dataset, batch_size=1, num_workers=1, isolation=isolation)
    iterator, good = iter(loader), 0
    for index in range(len(dataset)):
        try:
            expected = dataset[index]
        except stoker.SampleError as error:
            with pytest.raises(stoker.SampleError) as caught:
                next(iterator)
            assert caught.value.status == error.status and error.message in caught.value.message
        else:
            assert torch.equal(next(iterator)[0], expected), names[index]
            good += 1
    status = json.loads(_plane.client().status())
    assert good >= 15
    states = {worker["isolated"] for worker in status["workers"]}
    assert states == {False if isolation == "off" else status["pool"]["not_isolated"] is None}
    loader.close()


def test_quarantine_is_filled_and_acts_in_the_next_run(tmp_path):
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"no video at all")
    paths, where = [GOOD, str(bad)], tmp_path / "list.sqlite"
    loader = _loader(paths, on_error="skip", quarantine=where)
    assert loader.quarantined is None
    assert sum(len(batch) for batch in loader) == 2
    assert loader.quarantined == {"digest": loader.quarantined["digest"], "entries": 0}
    first = loader.quarantined["digest"]
    loader.close()
    _plane.close()

    def entries():
        with sqlite3.connect(where) as list_:
            return list_.execute("SELECT path, size, status, count FROM bad_file").fetchall()

    wait_until(lambda: entries() == [(str(bad), 15, "CORRUPT", 1)], 30, "the entry")
    loader = _loader(paths, quarantine=where)  # on_error="raise": gets past what is listed
    assert sum(len(batch) for batch in loader) == 2
    assert loader.quarantined["entries"] == 1 and loader.quarantined["digest"] != first
    assert loader.stats()["samples_skipped"] == 1
    loader.close()
    assert entries() == [(str(bad), 15, "CORRUPT", 1)]  # it was not tried


def test_quarantine_is_refused_where_no_files_are_known(tmp_path):
    where = tmp_path / "list.sqlite"
    with pytest.raises(errors.UnsupportedError, match="quarantine= is refused"):
        DistributedDataLoader(range(4), num_workers=1, quarantine=where)
    with pytest.raises(errors.UnsupportedError, match="num_workers=0"):
        _loader([GOOD], num_workers=0, quarantine=where)
    with pytest.raises(errors.UnsupportedError, match="isolation='on' is refused"):
        DistributedDataLoader(range(4), num_workers=1, isolation="on")
    (tmp_path / "notes").write_text("no database, but somebody's notes " * 20)
    with pytest.raises(errors.DataError, match="no quarantine list"):
        next(iter(_loader([GOOD], quarantine=tmp_path / "notes")))


@pytest.mark.parametrize("options, words", [
    (dict(max_bytes=1.5), "max_bytes=1.5 is no whole number"),
    (dict(retries="2"), "retries='2' is no whole number"),
    (dict(worker_max_bytes=-1), "worker_max_bytes=-1 is negative"),
    (dict(stall_limit_s=-3), "stall_limit_s=-3 is not above 0"),
    (dict(stall_limit_s=math.nan), "is not above 0"),
    (dict(sample_timeout_s=0), "sample_timeout_s=0 is not above 0"),
    (dict(sample_timeout_s="soon"), "sample_timeout_s='soon' is no number"),
    (dict(isolation="maybe"), "isolation='maybe' is none of"),
])
def test_options_that_mean_nothing_are_named(options, words):
    with pytest.raises(errors.CallerError) as caught:
        _loader([GOOD], **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("name, value, words", [
    ("STOKER_CONNECT_TIMEOUT", "abc", "STOKER_CONNECT_TIMEOUT is 'abc', a number of seconds"),
    ("STOKER_CONNECT_TIMEOUT", "-1", "STOKER_CONNECT_TIMEOUT is '-1'"),
    ("LOCAL_RANK", "-1", "LOCAL_RANK is -1, LOCAL_WORLD_SIZE is 2: expected 0 to 1"),
    ("LOCAL_RANK", "2", "LOCAL_RANK is 2, LOCAL_WORLD_SIZE is 2"),
])
def test_environment_that_means_nothing_is_named(monkeypatch, name, value, words):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv(name, value)
    with pytest.raises(errors.CallerError) as caught:
        next(iter(_loader([GOOD])))
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "circle", "long", "playlist"])
def test_what_is_no_file_is_the_same_error_with_and_without_workers(tmp_path, monkeypatch, kind):
    path = tmp_path / "x.mp4"
    monkeypatch.chdir(tmp_path)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind("x.mp4")
    elif kind == "circle":
        path.symlink_to(path)
    elif kind == "long":
        path = tmp_path / ("x" * 300)
    else:
        path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n")
    seen = []
    for workers in (0, 1):
        with pytest.raises(stoker.SampleError) as caught:
            next(iter(_loader([path], num_workers=workers)))
        seen.append((caught.value.status, caught.value.message))
    assert seen[0][0] == seen[1][0] == ("NOT_FOUND" if kind in ("circle", "long") else "UNSUPPORTED")
    loader = _loader([GOOD, path], on_error="skip")
    assert sum(len(batch) for batch in loader) == 2 and loader.stats()["samples_skipped"] == 1


def test_relative_paths_mean_what_they_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(GOLDEN)
    dataset = VideoDataset(["h264_bframes_g12.mp4"], **FORM)
    expected = dataset[0]
    monkeypatch.chdir(tmp_path)
    import pickle

    again = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(again[0], expected)
    assert torch.equal(next(iter(DistributedDataLoader(again, num_workers=1)))[0], expected)


def test_folder_that_is_gone_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert len(next(iter(_loader([GOOD])))) == 1  # nothing relative: nothing to look up
    with pytest.raises(errors.CallerError, match="the working directory is gone"):
        VideoDataset(["a.mp4"], **FORM)
    with pytest.raises(errors.CallerError, match="its working directory is gone"):
        next(iter(DistributedDataLoader(range(4), num_workers=1)))


def test_shared_memory_without_its_folder_is_no_bad_sample(tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_SHM_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(errors.MachineError, match="STOKER_SHM_DIR") as caught:
        next(iter(_loader([GOOD, GOOD], on_error="skip")))
    assert not isinstance(caught.value, errors.DataError)


def test_stopped_dataserver_is_told_with_its_pid_and_a_way_out(plane, caplog):
    loader = _loader([GOOD] * 64, batch_size=1, prefetch_batches=1)
    iterator = iter(loader)
    next(iterator)
    server = plane.processes("dataserver")[0].pid
    os.kill(server, signal.SIGSTOP)

    def told():
        return [record for record in caplog.records if "dataserver_silent" in record.getMessage()]

    class Resume(logging.Handler):
        """Lets the server go on once it was told of: next() below waits until then."""

        def emit(self, record):
            if "dataserver_silent" in record.getMessage():
                os.kill(server, signal.SIGCONT)

    handler = Resume()
    logging.getLogger("stoker").addHandler(handler)
    try:
        with caplog.at_level(logging.WARNING, "stoker"):
            for _ in range(3):
                next(iterator)
    finally:
        logging.getLogger("stoker").removeHandler(handler)
        os.kill(server, signal.SIGCONT)
    assert told() and f"kill -CONT {server}" in told()[0].getMessage()


def test_output_of_a_rank_that_left_is_let_go_while_others_are_missing(runtime):
    """A pipe behind the only rank that came ends with it, not when the DataServer gives up on the others."""
    script = runtime.write("rank.py", f"""
        from stoker.media import VideoDataset
        from stoker.torch import DistributedDataLoader
        loader = DistributedDataLoader(VideoDataset([{GOOD!r}], frames=2, size=16), num_workers=1, shard="none")
        print(len(next(iter(loader))))
        """)
    import subprocess
    import sys
    import time

    environment = {**runtime.environment, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(support.free_port())}
    process = subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    assert process.wait(100) == 0
    ended = time.monotonic()
    assert process.stdout.read() == "1\n"  # to the end of the pipe
    servers = runtime.processes("dataserver")
    assert servers, f"the DataServer left {time.monotonic() - ended:.0f} s after the rank: nothing was tested"
    for server in servers:  # it waits for rank 1 for 30 s
        os.kill(server.pid, signal.SIGTERM)


def test_limit_of_file_sizes_is_an_error_not_a_signal(runtime):
    process = runtime.script(f"""
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        from stoker.media import VideoDataset
        from stoker.torch import DistributedDataLoader
        from stoker import errors
        loader = DistributedDataLoader(VideoDataset([{GOOD!r}] * 4, frames=4, size=256), batch_size=4, num_workers=1)
        try:
            next(iter(loader))
        except errors.StokerError as error:
            print(type(error).__name__, "ulimit -f" in str(error))
        """)
    status, out, err = finish(process)
    assert (status, out) == (0, "MachineError True\n"), err


@pytest.mark.parametrize("kind", ["VideoDataset", "ImageDataset", "AudioDataset"])
def test_single_pipe_is_an_error_and_no_wait(kind, tmp_path):
    from stoker.audio import AudioDataset
    from stoker.media import ImageDataset

    pipe = tmp_path / "f.mp4"
    os.mkfifo(pipe)
    makers = {
        "VideoDataset": lambda: VideoDataset(str(pipe), **FORM),
        "ImageDataset": lambda: ImageDataset(str(pipe), size=8),
        "AudioDataset": lambda: AudioDataset(str(pipe), seconds=1),
    }
    with pytest.raises(stoker.StokerError, match="pipe|regular|neither"):
        makers[kind]()[0]


@pytest.mark.parametrize("wrong", [{"size": 2**32 + 8}, {"size": (8, 2**33)}, {"frames": 2**32 + 1}, {"size": "8"}])
def test_numbers_beyond_what_c_can_hold_are_refused(wrong):
    with pytest.raises(errors.CallerError, match=next(iter(wrong))):
        VideoDataset([GOOD], **{**FORM, **wrong})


def test_rate_beyond_what_c_can_hold_is_refused():
    from stoker.audio import read_audio

    with pytest.raises(errors.CallerError, match="rate="):
        read_audio(GOOD, rate=2**32 + 8000)


@pytest.mark.parametrize("kind", ["VideoDataset", "ImageDataset", "AudioDataset", "VideoPatches", "ImagePatches"])
def test_media_of_another_kind_in_a_list_is_named_once(kind, tmp_path):
    from stoker.audio import AudioDataset
    from stoker.media import ImageDataset

    path = tmp_path / "words.mp4"
    path.write_text("these are words\n")
    makers = {
        "VideoDataset": lambda paths: VideoDataset(paths, **FORM),
        "ImageDataset": lambda paths: ImageDataset(paths, size=8),
        "AudioDataset": lambda paths: AudioDataset(paths, seconds=1),
        "VideoPatches": lambda paths: VideoDataset(paths, preset="qwen2-vl"),
        "ImagePatches": lambda paths: ImageDataset(paths, preset="qwen2-vl"),
    }
    with pytest.raises(errors.SampleError, match="neither video nor sound|are no JPEG, PNG, WebP or GIF") as caught:
        makers[kind]([str(path)])[0]
    assert str(caught.value).count(str(path)) == 1
