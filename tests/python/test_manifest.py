# SPDX-License-Identifier: Apache-2.0
"""stoker.manifest: manifests as sources of videos, also in workers without Python, and tar shards against tarfile."""

import gc
import io
import os
import pathlib
import pickle
import random
import shutil
import tarfile
import time

import numpy as np
import pytest

import stoker
from stoker import errors, manifest, media
from stoker.torch import DistributedDataLoader

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "media"
NAMES = ["h264_bframes_g12.mp4", "ptswrap.ts", "rot90.mp4", "vfr.mp4", "vp9_odd227x171.webm"]


@pytest.fixture
def clips(tmp_path):
    """Five clips, a damaged file, and a shard of three of them with captions."""
    folder = tmp_path / "clips"
    folder.mkdir()
    for name in NAMES:
        shutil.copy(GOLDEN / name, folder)
    (folder / "bad.mp4").write_bytes(b"nothing")
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for name in NAMES[2:]:
            tar.add(folder / name, "x/" + name)
            caption = tarfile.TarInfo("x/" + name.split(".")[0] + ".txt")
            caption.size = len(name)
            tar.addfile(caption, io.BytesIO(name.encode()))
    return folder


def videos(source):
    return media.VideoDataset(source, frames=4, size=48, as_numpy=True)


def test_a_manifest_is_the_source_of_the_files_it_names(clips):
    path = clips.parent / "m.stkm"
    done = manifest.build(path, [clips, clips.parent / "s.tar"], jobs=2)
    assert done == {"entries": 9, "bad": 1, "kept": 0, "resumed": 0}
    listed = videos(path)
    assert len(listed) == 8 and [os.path.basename(name) for name in listed.paths[:5]] == NAMES
    assert listed.paths[5] == f"{clips.parent}/s.tar::x/rot90.mp4"
    plain = videos([clips / name for name in NAMES])
    for index, other in enumerate([0, 1, 2, 3, 4, 2, 3, 4]):
        assert np.array_equal(listed[index], plain[other])
    described = listed.describe(6)
    assert described["bytes"] == os.path.getsize(clips / "vfr.mp4") and described["path"].endswith("s.tar::x/vfr.mp4")
    copy = pickle.loads(pickle.dumps(listed))
    assert copy.paths == listed.paths and np.array_equal(copy[7], plain[4])


def test_workers_read_files_and_members(clips):
    path = clips.parent / "m.stkm"
    manifest.build(path, [clips, clips.parent / "s.tar"], exact=True)
    dataset = media.VideoDataset(path, frames=4, size=48, return_index=True)
    loader = DistributedDataLoader(dataset, batch_size=3, num_workers=2)
    seen = [(video.clone(), int(index)) for batch, indices in loader for video, index in zip(batch, indices)]
    assert [index for _, index in seen] == list(range(8))
    for video, index in seen:
        assert (video == dataset[index][0]).all()
    del loader
    gc.collect()


def test_rule_A8_a_file_that_changed_since_is_a_mismatch(clips):
    path = clips.parent / "m.stkm"
    manifest.build(path, clips)
    shutil.copy(GOLDEN / "sar16_11.mp4", clips / "rot90.mp4")
    dataset = videos(path)
    with pytest.raises(stoker.SampleError, match="it had 30055 when the source was made") as caught:
        dataset[2]
    assert caught.value.status == "MISMATCH"
    assert [index for index, _ in manifest.Manifest(path).verify()] == [3]  # entries count the bad file, too
    done = manifest.build(path, clips)
    assert done["kept"] == 5
    assert videos(path)[2].shape == (4, 3, 48, 48)


def test_entries_and_packets(clips):
    path = clips.parent / "m.stkm"
    manifest.build(path, clips, exact=True)
    opened = manifest.Manifest(path)
    assert len(opened) == 6 and opened.facts["bad"] == 1 and len(list(opened)) == 6
    by_name = {os.path.basename(entry["path"]): entry for entry in opened}
    assert by_name["bad.mp4"]["error"] and by_name["bad.mp4"]["codec"] is None
    for name in NAMES:
        entry, facts = by_name[name], media.probe(clips / name, exact=True)
        assert entry["frames_exact"] == facts["frames"]
        assert all(entry[key] == facts[key] for key in ("codec", "width", "height", "rotation", "bytes", "mtime_ns"))
    index = [os.path.basename(entry["path"]) for entry in opened].index("h264_bframes_g12.mp4")
    packets = opened.packets(index)
    entry = opened[index]
    assert len(packets) == entry["packets"] and packets["size"].sum() == entry["packet_bytes"]
    assert (packets["flags"] & 1).sum() == entry["key_packets"] and (np.diff(packets["dts"]) > 0).all()
    assert opened[-1] == opened[5]
    with pytest.raises(IndexError, match="outside a manifest of 6 files"):
        opened[6]
    assert pickle.loads(pickle.dumps(opened))[0] == opened[0]


def test_verify_finds_what_differs(clips):
    path = clips.parent / "m.stkm"
    manifest.build(path, clips)
    opened = manifest.Manifest(path)
    for depth in ("facts", "packets", "frames"):
        assert opened.verify(depth) == []
    os.remove(clips / "bad.mp4")
    (index, message), = opened.verify()
    assert os.path.basename(opened[index]["path"]) == "bad.mp4" and "No such file" in message
    with pytest.raises(errors.CallerError, match="depth='all'"):
        opened.verify("all")


def test_progress_is_told_and_can_stop_a_build(clips):
    path = clips.parent / "m.stkm"
    told = []
    manifest.build(path, clips, jobs=3, progress=lambda *numbers: told.append(numbers))
    assert [done for done, *_ in told] == list(range(1, 7)) and all(total == 6 for _, total, *_ in told)
    os.remove(path)

    def stop(done, total, kept, resumed, bad):
        if done == 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        manifest.build(path, clips, jobs=1, progress=stop)
    assert not path.exists()
    assert manifest.build(path, clips)["resumed"] == 3


def test_merged_manifests(clips):
    one, two, both = (clips.parent / name for name in ("one.stkm", "two.stkm", "both.stkm"))
    manifest.build(one, [clips / name for name in NAMES[:2]])
    manifest.build(two, [clips / name for name in NAMES[2:]])
    manifest.merge(both, [one, two])
    assert [os.path.basename(path) for path in manifest.Manifest(both).paths()] == NAMES
    with pytest.raises(errors.CallerError, match="stands in"):
        manifest.merge(both, [one, one])


def test_the_endings_of_videos_are_those_of_the_dataset(tmp_path):
    folder = tmp_path / "all"
    folder.mkdir()
    for ending in [*media.VIDEO_EXTENSIONS, ".txt", ".jpg", ".mp4x", ""]:
        (folder / f"a{ending}").touch()
    manifest.build(tmp_path / "m.stkm", folder)
    found = [entry["path"] for entry in manifest.Manifest(tmp_path / "m.stkm")]
    assert found == list(media.VideoDataset(folder, frames=1, size=8).paths)
    assert len(found) == len(media.VIDEO_EXTENSIONS)


def test_what_is_no_manifest_of_videos_is_named(clips):
    assert not manifest.is_manifest(clips / "rot90.mp4") and not manifest.is_manifest(clips / "absent")
    with pytest.raises(errors.DataError, match="no manifest: magic at offset 0"):
        manifest.Manifest(clips / "rot90.mp4")
    path = clips.parent / "m.stkm"
    manifest.build(path, clips.parent / "s.tar")
    assert manifest.is_manifest(path)
    with pytest.raises(errors.UnsupportedError, match="lists a member of the shard"):
        media.ImageDataset(path, size=8)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(errors.DataError, match="size at offset 8"):
        videos(path)


# ------------------------------------------------------------------------------------------------------------- shards


def random_name(random, format):
    """Names of every length that the format can hold, with dots and folders where they come."""
    parts = ["".join(random.choices("abXY._-é ", k=random.randint(1, 70))) + "q" for _ in range(random.randint(1, 3))]
    name = "/".join(parts).removeprefix("./")
    return name if format != tarfile.USTAR_FORMAT else name.replace("é", "e")[-90:].lstrip("/")


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_prop_members_are_those_of_tarfile(tmp_path, format):
    draws = random.Random(17 + format)
    path = tmp_path / "s.tar"
    contents = {}
    with tarfile.open(path, "w", format=format) as tar:
        for number in range(300):
            name = f"{number:03}" + random_name(draws, format)
            kind = draws.choice([tarfile.REGTYPE] * 6 + [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
            member = tarfile.TarInfo(name)
            member.type = kind
            member.mtime = draws.random() * 1e9 if format == tarfile.PAX_FORMAT else 7
            data = draws.randbytes(draws.choice([0, 1, 511, 512, 513, 5000])) if kind == tarfile.REGTYPE else b""
            member.size = len(data)
            member.linkname = "somewhere" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            tar.addfile(member, io.BytesIO(data))
            if kind == tarfile.REGTYPE:
                contents[name] = data
    with tarfile.open(path) as tar:
        expected = [(member.name, member.offset_data, member.size) for member in tar if member.isreg()]
    shard = manifest.TarShard(path, index="write")
    for shard in (shard, manifest.TarShard(path)):
        assert [(member["name"], member["offset"], member["size"]) for member in shard.members()] == expected
        for name in draws.sample(sorted(contents), 50):
            assert shard.read(name) == contents[name]
    assert shard.facts["from_index"]


def test_samples_are_grouped_by_their_keys(clips):
    shard = manifest.TarShard(clips.parent / "s.tar")
    assert len(shard) == 3
    for index, name in enumerate(NAMES[2:]):
        stem, ending = name.split(".")
        sample = shard[index]
        assert sample == {"__key__": "x/" + stem, ending: (clips / name).read_bytes(), "txt": name.encode()}
        key, members = shard.keys(index)
        assert key == "x/" + stem and set(members) == {ending, "txt"}
        assert shard.read(members["txt"]) == name.encode()
    assert shard[-1]["__key__"] == shard[2]["__key__"]
    with pytest.raises(IndexError):
        shard[3]
    with pytest.raises(errors.DataError, match="no member 'x/absent'"):
        shard.find("x/absent")
    assert pickle.loads(pickle.dumps(shard))[1] == shard[1]


def test_a_name_that_stands_twice_is_an_error_or_the_last_counts(tmp_path):
    """dup.tar holds 0.jpg twice."""
    path = tmp_path / "dup.tar"
    with tarfile.open(path, "w") as tar:
        for data in (b"first", b"second"):
            member = tarfile.TarInfo("0.jpg")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    with pytest.raises(errors.DataError, match="the member '0.jpg' stands twice: its data are at byte 512 and at byte 1536"):
        manifest.TarShard(path)
    shard = manifest.TarShard(path, duplicates="last", index="write")
    assert shard[0] == {"__key__": "0", "jpg": b"second"} and shard.facts["dropped"] == 1
    with pytest.raises(errors.DataError, match="stands twice"):  # the index that drops one is not used for this
        manifest.TarShard(path)
    with pytest.raises(errors.CallerError, match="duplicates='first'"):
        manifest.TarShard(path, duplicates="first")


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2"])
def test_compressed_shards_are_refused_by_name(tmp_path, ending):
    path = tmp_path / f"s.tar{ending}"
    with tarfile.open(path, "w:" + ending[1:]) as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    with pytest.raises(errors.UnsupportedError, match="the archive is compressed"):
        manifest.TarShard(path)


def test_every_cut_of_a_shard_is_noticed_or_a_shard(clips, tmp_path):
    """A cut between members cannot be told from an archive that was never ended; every other one is named."""
    small = tmp_path / "small.tar"
    with tarfile.open(small, "w") as tar:
        for name, data in (("a.txt", b"x" * 600), ("b.txt", b"y" * 3)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    data = small.read_bytes()
    for cut in range(0, len(data), 97):
        small.write_bytes(data[:cut])
        if 512 + 600 <= cut <= 1536 or 1536 + 512 + 3 <= cut <= 2560 or cut >= 2560 + 512:  # padding, or one block of zeros
            assert manifest.TarShard(small).facts["members"] == (1 if cut <= 1536 else 2), cut
        else:
            with pytest.raises(errors.DataError, match="archive"):
                manifest.TarShard(small)


def test_a_large_manifest_is_small(tmp_path):
    """Below 200 bytes an entry besides packets and texts. How long it takes to open is printed, not judged."""
    many = tmp_path / "many.tar"
    with tarfile.open(many, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(5000):
            member = tarfile.TarInfo(f"{number:06}.mp4")
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
    path = tmp_path / "many.stkm"
    manifest.build(path, many)
    begin = time.perf_counter()
    facts = manifest.Manifest(path).facts
    seconds = time.perf_counter() - begin
    assert facts["entries"] == 5000
    assert facts["bytes"] - facts["packet_bytes"] - facts["text_bytes"] < 200 * facts["entries"]
    print(f"{facts['entries']} entries: {facts['bytes']} bytes, opened in {1000 * seconds:.1f} ms")
