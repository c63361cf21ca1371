# SPDX-License-Identifier: Apache-2.0
"""Media with captions: JSON-lines manifests and tar shards, alone, in the stock loader and in native workers."""

import concurrent.futures
import io
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tarfile

import pytest
import torch
from object_server import Fault, Server
from torch.utils.data import DataLoader, Subset

import stoker
from stoker import manifest
from stoker.captions import Captions
from stoker.manifests import ManifestDataset
from stoker.media import ImageDataset, VideoDataset
from stoker.parquet import ParquetDataset
from stoker.torch import DistributedDataLoader
from stoker.webdataset import WebDataset, expand_braces

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "media"
CLIPS = ["vfr.mp4", "rot90.mp4", "h264_bframes_g12.mp4", "vp9_odd227x171.webm"]
FORM = {"frames": 4, "size": 32}


def write_lines(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8")
    return path


def write_tar(path, members):
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            tar.addfile(facts, io.BytesIO(data))
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Four small pictures, made by ffmpeg."""
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(4):
        colour = ["red", "green", "blue", "white"][i]
        command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"color={colour}:size={40 + 8 * i}x40", "-frames:v", "1"]
        subprocess.run([*command, str(folder / f"{i}.{'png' if i % 2 else 'jpg'}")], check=True, stdin=subprocess.DEVNULL)
    return sorted(folder.iterdir())


@pytest.fixture
def clips(tmp_path):
    """A manifest whose second clip is a member of a shard; and the dataset of the same clips as files."""
    write_tar(tmp_path / "s.tar", [("x/1.mp4", (GOLDEN / CLIPS[1]).read_bytes()), ("x/1.txt", b"unused")])
    rows = [
        {"path": os.path.relpath(GOLDEN / CLIPS[0], tmp_path), "caption": "a cat", "score": 1, "id": 10, "good": True},
        {"tar": "s.tar", "member": "x/1.mp4", "caption": "zwei Bäume", "score": 0.5, "id": 11, "good": False},
        {"path": str(GOLDEN / CLIPS[2]), "caption": "", "score": 2, "id": 12, "good": True, "media": "video"},
        {"video": str(GOLDEN / CLIPS[3]), "caption": "last", "score": 3, "id": 2**40, "good": True, "error": None},
    ]
    rows = ["# a comment", *rows[:2], "", {"path": "gone.mp4", "error": "no video stream"}, *rows[2:]]
    return write_lines(tmp_path / "clips.jsonl", rows), VideoDataset([GOLDEN / name for name in CLIPS], **FORM)


def same(left, right):
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for name in left:
            same(left[name], right[name])
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            same(a, b)
    else:
        assert left == right


def same_batches(dataset, count, **options):
    """The native loader gives what the stock one gives; returns the batches."""
    loader = DistributedDataLoader(dataset, num_workers=2, **options)
    assert loader._native is not None
    made = list(loader)
    loader.close()
    expected = list(DataLoader(dataset, **options))
    assert len(made) == count
    for left, right in zip(made, expected, strict=True):
        same(left, right)
    return made


# --------------------------------------------------------------------------------------------------------------- manifests


def test_items_are_the_media_and_the_fields_of_their_lines(clips):
    path, plain = clips
    dataset = ManifestDataset(path, **FORM)
    assert len(dataset) == 4
    assert dataset.fields == ("caption", "score", "id", "good")
    for i in range(4):
        assert torch.equal(dataset[i]["video"], plain[i])
    item = dataset[1]
    assert list(item) == ["video", "caption", "score", "id", "good"]
    assert (item["caption"], item["score"], item["id"], item["good"]) == ("zwei Bäume", 0.5, 11, False)
    assert type(dataset[0]["score"]) is float  # one of the lines has a float
    assert dataset.paths[1].endswith("/s.tar::x/1.mp4")
    assert dataset[-1]["id"] == 2**40
    with pytest.raises(IndexError, match="index 4 is outside"):
        dataset[4]


@pytest.mark.parametrize("options", [{"batch_size": 3}, {"batch_size": None}, {"batch_size": 2, "shuffle": False}])
def test_native_workers_give_the_batches_of_the_stock_loader(clips, options):
    made = same_batches(ManifestDataset(clips[0], **FORM), 2 if options["batch_size"] else 4, **options)
    if options["batch_size"] == 3:
        assert made[0]["caption"] == ["a cat", "zwei Bäume", ""]
        assert made[0]["id"].tolist() == [10, 11, 12]
        assert made[0]["good"].dtype == torch.bool


def test_subsets_keep_fields_with_their_media(clips):
    made = same_batches(Subset(ManifestDataset(clips[0], **FORM), [3, 1, 1]), 2, batch_size=2)
    assert made[0]["caption"] == ["last", "zwei Bäume"]


def test_batches_in_any_order_keep_fields_with_their_media(clips):
    path, plain = clips
    loader = DistributedDataLoader(ManifestDataset(path, **FORM), num_workers=2, in_order=False)
    seen = {int(batch["id"]): batch["video"][0] for batch in loader}
    loader.close()
    assert sorted(seen) == [10, 11, 12, 2**40]
    for i, key in enumerate([10, 11, 12, 2**40]):
        assert torch.equal(seen[key], plain[i])


def test_what_the_media_return_has_names(clips):
    dataset = ManifestDataset(clips[0], return_index=True, return_frames=True, fields=["caption"], **FORM)
    assert list(dataset[2]) == ["video", "index", "frames", "caption"]
    made = same_batches(dataset, 2, batch_size=2)
    assert made[1]["index"].tolist() == [2, 3]


def test_patches_of_models_have_fields_too(tmp_path):
    rows = [{"path": str(GOLDEN / name), "caption": name} for name in CLIPS[:2]]
    dataset = ManifestDataset(write_lines(tmp_path / "m.jsonl", rows), preset="qwen2-vl")
    loader = DistributedDataLoader(dataset, 2, num_workers=1)
    assert loader._native is not None
    made = next(iter(loader))
    loader.close()
    same(made, next(iter(DataLoader(dataset, 2, collate_fn=dataset.collate_fn))))
    assert list(made) == ["pixel_values_videos", "video_grid_thw", "caption"]
    assert made["caption"] == CLIPS[:2]
    with pytest.raises(stoker.errors.CallerError, match="the field 'video_grid_thw' has the name"):
        ManifestDataset(write_lines(tmp_path / "n.jsonl", [{**rows[0], "video_grid_thw": 1}]), preset="qwen2-vl")


def test_pictures_and_sounds(tmp_path, pictures):
    rows = [{"path": str(path), "label": i} for i, path in enumerate(pictures)]
    dataset = ManifestDataset(write_lines(tmp_path / "p.jsonl", rows), size=16)
    assert dataset.kind == "image"
    assert torch.equal(dataset[1]["image"], ImageDataset(pictures, size=16)[1])
    same_batches(dataset, 2, batch_size=2)
    sound = ManifestDataset(
        write_lines(tmp_path / "s.jsonl", [{"audio": str(GOLDEN / "audio_only.m4a"), "text": "hm"}]), seconds=0.1
    )
    same_batches(sound, 1)


def test_the_kind_is_seen_from_the_content(tmp_path):
    (tmp_path / "clip").write_bytes((GOLDEN / CLIPS[0]).read_bytes())
    assert ManifestDataset(write_lines(tmp_path / "m.jsonl", [{"path": "clip"}]), **FORM).kind == "video"


def test_bad_samples_take_their_fields_with_them(clips, tmp_path):
    """A sample in the place of a bad one has its own fields, not those of the bad one."""
    rows = [{"path": str(GOLDEN / CLIPS[0]), "n": 0}, {"path": str(tmp_path / "gone.mp4"), "n": 1}]
    dataset = ManifestDataset(write_lines(tmp_path / "bad.jsonl", rows), **FORM)
    loader = DistributedDataLoader(dataset, 2, num_workers=1, on_error="skip")
    batch = next(iter(loader))
    loader.close()
    assert batch["n"].tolist() == [0, 0]
    assert torch.equal(batch["video"][0], batch["video"][1])
    loader = DistributedDataLoader(dataset, 2, num_workers=1)
    with pytest.raises(stoker.SampleError, match=r"sample 1 .*gone.mp4"):
        next(iter(loader))
    loader.close()
    with pytest.raises(stoker.errors.UnsupportedError, match="quarantine"):
        DistributedDataLoader(dataset, 2, num_workers=1, quarantine=tmp_path / "q")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one line"),
        (["{"], "line 1: one JSON object was expected"),
        (["[1]"], "line 1: a JSON object was expected, not list"),
        (['{"path": "a.mp4", "x": NaN}'], "NaN is no JSON"),
        ([{"path": "a.mp4"}, {"caption": "x"}], "line 2: one of 'path', .* was expected, found none"),
        ([{"path": "a.mp4", "video": "b.mp4"}], "line 1: one of .* found 'path' and 'video'"),
        ([{"path": 7}], "line 1: path is 7, a text was expected"),
        ([{"path": "a.mp4", "media": "film"}], "line 1: media is 'film', expected one of"),
        ([{"video": "a.mp4", "media": "image"}], "line 1: media is 'image', but the path stands under 'video'"),
        ([{"video": "a.mp4"}, {"image": "b.png"}], "line 2: this is image, but the dataset is of video"),
        ([{"path": "a.mp4", "c": "x"}, {"path": "b.mp4"}], "line 2: the field 'c' was expected, but there is none"),
        ([{"path": "a.mp4"}, {"path": "b.mp4", "c": 1}], "line 2: the field 'c' is new"),
        ([{"path": "a.mp4", "c": "x"}, {"path": "b.mp4", "c": 1}], "line 2: the field 'c' is of type int, .* was text"),
        ([{"path": "a.mp4", "c": None}], "line 1: the field 'c' is null"),
        ([{"path": "a.mp4", "member": "b"}], "line 1: 'member' was found without 'tar'"),
        ([{"tar": "a.tar"}], "line 1: member is None, a text was expected"),
        ([{"tar": "a.tar", "member": "b.mp4"}], "line 1: .*a.tar: the shard cannot be opened"),
        ([{"path": "a.mp4", "video": "b"}], "line 1"),
        ([{"path": "unknown"}], "line 1: of what kind .*unknown"),
    ],
)
def test_faults_of_a_manifest_name_the_line(tmp_path, rows, message):
    with pytest.raises(stoker.errors.CallerError, match=message):
        ManifestDataset(write_lines(tmp_path / "m.jsonl", rows), **FORM)


def test_a_field_cannot_have_the_name_of_the_media(tmp_path):
    path = write_lines(tmp_path / "m.jsonl", [{"path": "a.mp4", "index": 7}])
    assert ManifestDataset(path, **FORM).fields == ("index",)
    with pytest.raises(stoker.errors.CallerError, match="the field 'index' has the name of what the dataset itself gives"):
        ManifestDataset(path, return_index=True, **FORM)


def test_a_manifest_that_changes_is_a_mismatch(clips):
    path, _ = clips
    dataset = ManifestDataset(path, **FORM)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("a cat", "a dog!"), encoding="utf-8")
    with pytest.raises(stoker.errors.DataError, match="the manifest was changed since the dataset was made"):
        dataset[0]


def test_datasets_are_pickled_without_what_is_open(clips):
    dataset = ManifestDataset(clips[0], **FORM)
    dataset[0]
    same(pickle.loads(pickle.dumps(dataset))[1], dataset[1])


def test_situation_72_many_lines_cost_little_memory(tmp_path):
    """232,000 lines: what stays in memory is far below the manifest itself, and a batch does not add to it."""
    path = tmp_path / "many.jsonl"
    clip = str(GOLDEN / "vfr.mp4")
    with open(path, "w", encoding="utf-8") as out:
        for i in range(232_000):
            out.write(json.dumps({"path": clip, "caption": "x" * 400, "n": i}) + "\n")
    code = f"""
import resource, sys
from stoker.captions import Captions
from stoker.manifests import ManifestDataset
from stoker.parquet import ParquetDataset
from stoker.torch import DistributedDataLoader
def rss(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
DistributedDataLoader, before = DistributedDataLoader, rss()
dataset = ManifestDataset({str(path)!r}, frames=1, size=16)
kept = rss() - before
loader = DistributedDataLoader(dataset, 4, num_workers=1, shuffle=True, prefetch_batches=2)
rows = iter(loader)
for _ in range(20): batch = next(rows)
after = rss()
for _ in range(150):
    batch = next(rows)
    assert len(batch["caption"]) == 4
print(kept, rss() - after, batch["video"].shape[0])
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=150).stdout
    kept, grown, size = map(int, found.split())
    assert size == 4
    assert kept < os.path.getsize(path)  # 110 MB; a list of its rows would be 200 MB
    assert grown < 16 << 20


# ------------------------------------------------------------------------------------------------------------- tar shards


def test_braces():
    assert expand_braces("a-{08..10}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar"]
    assert expand_braces("{x,y}/{0..1}.tar") == ["x/0.tar", "x/1.tar", "y/0.tar", "y/1.tar"]
    with pytest.raises(stoker.errors.CallerError, match="neither a range"):
        expand_braces("{a}.tar")
    with pytest.raises(stoker.errors.CallerError, match="goes upward"):
        expand_braces("{3..1}.tar")


@pytest.fixture
def shards(tmp_path):
    """Two shards of two clips each, with texts, numbers and JSON."""
    for number in range(2):
        members = []
        for i in range(2):
            key = f"d{number}/{i}.5"  # the extension begins at the first dot
            members += [
                (f"d{number}/{i}.mp4", (GOLDEN / CLIPS[2 * number + i]).read_bytes()),
                (f"d{number}/{i}.txt", f"é {number}{i}".encode()),
                (f"d{number}/{i}.cls", b"%d\n" % (2 * number + i)),
                (f"d{number}/{i}.json", json.dumps({"w": i + 0.5, "tags": key}).encode()),
            ]
        write_tar(tmp_path / f"s-{number:03}.tar", members)
    return tmp_path


def test_members_with_one_key_are_a_sample(shards):
    dataset = WebDataset(shards / "s-{000..001}.tar", **FORM)
    plain = VideoDataset([GOLDEN / name for name in CLIPS], **FORM)
    assert len(dataset) == 4
    for i in range(4):
        assert torch.equal(dataset[i]["video"], plain[i])
    item = dataset[3]
    assert item.pop("video") is not None
    assert item == {"__key__": "d1/1", "cls": 3, "json": {"w": 1.5, "tags": "d1/1.5"}, "txt": "é 11"}
    assert sorted(path.name for path in shards.glob("*.stkx")) == ["s-000.tar.stkx", "s-001.tar.stkx"]


def test_shards_are_shuffled_as_any_map_dataset(shards):
    dataset = WebDataset(shards, **FORM)
    made = same_batches(dataset, 2, batch_size=3)
    assert made[0]["txt"] == ["é 00", "é 01", "é 10"]
    assert made[0]["json"]["w"].tolist() == [0.5, 1.5, 0.5]
    order = torch.randperm(4, generator=torch.Generator().manual_seed(3)).tolist()
    made = same_batches(dataset, 4, sampler=order)
    assert [int(batch["cls"]) for batch in made] == order
    same_batches(pickle.loads(pickle.dumps(dataset)), 4)


def test_media_and_fields_are_chosen(shards):
    dataset = WebDataset([shards / "s-001.tar"], media="mp4", fields=["txt"], return_index=True, **FORM)
    assert list(dataset[0]) == ["video", "index", "__key__", "txt"]
    assert WebDataset(shards, fields=["mp4"], **FORM)[0]["mp4"] == (GOLDEN / CLIPS[0]).read_bytes()


def test_pictures_and_sounds_of_shards(tmp_path, pictures):
    members = []
    for i, path in enumerate(pictures):
        members += [(f"{i}{path.suffix}", path.read_bytes()), (f"{i}.cls", b"%d" % i)]
    write_tar(tmp_path / "p.tar", members)
    dataset = WebDataset(tmp_path / "p.tar", size=16)
    assert torch.equal(dataset[2]["image"], ImageDataset(pictures, size=16)[2])
    made = same_batches(dataset, 2, batch_size=2)
    assert made[1]["cls"].tolist() == [2, 3]
    write_tar(tmp_path / "a.tar", [("0.m4a", (GOLDEN / "audio_only.m4a").read_bytes())])
    same_batches(WebDataset(tmp_path / "a.tar", seconds=0.1), 1)


def test_incomplete_samples(tmp_path):
    clip = (GOLDEN / CLIPS[0]).read_bytes()
    write_tar(tmp_path / "s.tar", [("a.mp4", clip), ("a.txt", b"a"), ("b.mp4", clip), ("c.txt", b"c")])
    with pytest.raises(stoker.errors.DataError, match=r"s.tar: sample 'b': the sample has 'mp4'; 'txt' was expected"):
        WebDataset(tmp_path / "s.tar", **FORM)
    dataset = WebDataset(tmp_path / "s.tar", incomplete="skip", **FORM)
    assert (len(dataset), dataset.left_out) == (1, 2)


def test_samples_that_cannot_be_told_apart_are_refused(tmp_path, pictures):
    write_tar(tmp_path / "s.tar", [("a.left.jpg", pictures[0].read_bytes()), ("a.right.jpg", pictures[2].read_bytes())])
    with pytest.raises(stoker.errors.CallerError, match="media= must say which"):
        WebDataset(tmp_path / "s.tar", size=16)
    assert len(WebDataset(tmp_path / "s.tar", media="right.jpg", size=16)) == 1


def test_a_member_that_is_no_number_is_a_bad_sample(tmp_path):
    clip = (GOLDEN / CLIPS[0]).read_bytes()
    write_tar(tmp_path / "s.tar", [("a.mp4", clip), ("a.cls", b"cat")])
    with pytest.raises(stoker.SampleError, match=r"sample 0: .*s.tar: the member a.cls of 3 bytes cannot be read"):
        WebDataset(tmp_path / "s.tar", **FORM)[0]


def test_a_shard_that_changes_is_a_mismatch(shards):
    dataset = WebDataset(shards / "s-000.tar", **FORM)
    os.utime(shards / "s-000.tar", ns=(5, 5))
    with pytest.raises(stoker.SampleError, match=r"sample 1: .*s-000.tar::d0/1.mp4: the shard was changed at 5 ns"):
        dataset[1]


def test_one_of_several_ranks_walks_a_shard(shards, tmp_path):
    """All find the same samples, and the index that one of them wrote is used by the others."""
    folder = tmp_path / "indices"
    code = f"""
from stoker import manifest
shard = manifest.ShardFolder("error", {str(folder)!r}).shard({str(shards / "s-000.tar")!r})
print(shard.facts["written"], shard.facts["from_index"], len(shard))
"""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        run = [pool.submit(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True) for _ in range(4)]
        found = sorted(one.result().stdout.strip() for one in run)
    assert found == ["False True 2"] * 3 + ["True False 2"]
    assert len(list(folder.iterdir())) == 1
    assert manifest.ShardFolder("error", folder).shard(str(shards / "s-000.tar")).facts["from_index"]


# ----------------------------------------------------------------------------------------------------------- object storage


@pytest.fixture
def store(monkeypatch):
    """A server of objects, and nothing of the environment but its address."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nonexistent")
    with Server({f"/bucket/{name}": (GOLDEN / name).read_bytes() for name in CLIPS}) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield server


@pytest.mark.parametrize("isolation", ["auto", "on", "off"])
def test_videos_are_decoded_from_object_storage_by_native_workers(store, isolation):
    plain = VideoDataset([GOLDEN / name for name in CLIPS], **FORM)
    dataset = VideoDataset([f"s3://bucket/{CLIPS[0]}", *(f"{store.url}/bucket/{name}" for name in CLIPS[1:])], **FORM)
    assert store.requests == []  # nothing is asked before a sample is
    assert torch.equal(dataset[0], plain[0])
    assert "authorization" in map(str.lower, store.requests[0][2])
    loader = DistributedDataLoader(dataset, 2, num_workers=2, isolation=isolation)
    assert loader._native is not None
    made = torch.cat(list(loader))
    loader.close()
    assert torch.equal(made, torch.stack([plain[i] for i in range(4)]))


def test_loaders_of_files_and_of_objects_share_workers(store):
    plain = VideoDataset([GOLDEN / name for name in CLIPS], **FORM)
    loaders = [DistributedDataLoader(plain, num_workers=1)]
    loaders.append(DistributedDataLoader(VideoDataset([f"s3://bucket/{CLIPS[0]}"], **FORM), num_workers=1))
    first = iter(loaders[0])
    assert torch.equal(next(first)[0], plain[0])
    assert torch.equal(next(iter(loaders[1]))[0], plain[0])
    assert torch.equal(next(first)[0], plain[1])
    for loader in loaders:
        loader.close()


def test_manifests_name_objects(store, tmp_path):
    rows = [{"path": f"s3://bucket/{name}", "caption": name} for name in CLIPS]
    made = same_batches(ManifestDataset(write_lines(tmp_path / "m.jsonl", rows), **FORM), 2, batch_size=2)
    assert made[1]["caption"] == CLIPS[2:]
    assert torch.equal(made[0]["video"][1], VideoDataset([GOLDEN / CLIPS[1]], **FORM)[0])


def test_pictures_come_from_object_storage(store, pictures):
    store.objects["/bucket/p.jpg"] = pictures[0].read_bytes()
    dataset = ImageDataset(["s3://bucket/p.jpg"], size=16)
    loader = DistributedDataLoader(dataset, num_workers=1)
    assert torch.equal(next(iter(loader))[0], ImageDataset([pictures[0]], size=16)[0])
    loader.close()


def test_shards_are_read_from_object_storage(store, shards, tmp_path):
    for number in range(2):
        store.objects[f"/bucket/s-{number:03}.tar"] = (shards / f"s-{number:03}.tar").read_bytes()
    dataset = WebDataset("s3://bucket/s-{000..001}.tar", index_dir=tmp_path / "indices", **FORM)
    made = same_batches(dataset, 2, batch_size=2)
    assert made[1]["txt"] == ["é 10", "é 11"]
    assert torch.equal(made[1]["video"][1], VideoDataset([GOLDEN / CLIPS[3]], **FORM)[0])
    assert len(list((tmp_path / "indices").glob("*.stkx"))) == 2
    store.tags["/bucket/s-001.tar"] = 2
    with pytest.raises(stoker.SampleError, match=r"s-001.tar::d1/0.mp4: the shard was changed"):
        dataset[2]


def test_faults_of_object_storage_name_address_and_tries(store):
    dataset = VideoDataset(["s3://bucket/gone.mp4", f"s3://bucket/{CLIPS[0]}"], **FORM)
    loader = DistributedDataLoader(dataset, num_workers=1)
    rows = iter(loader)
    with pytest.raises(stoker.SampleError, match=r"sample 0 .*s3://bucket/gone.mp4"):
        next(rows)
    assert torch.equal(next(rows)[0], VideoDataset([GOLDEN / CLIPS[0]], **FORM)[0])
    loader.close()
    store.faults.append(Fault(lambda handler: handler.say(503), times=2))
    assert torch.equal(dataset[1], VideoDataset([GOLDEN / CLIPS[0]], **FORM)[0])  # two faults that pass
    store.faults.append(Fault(lambda handler: handler.say(503), times=100))
    with pytest.raises(stoker.StokerError, match=rf"s3://bucket/{CLIPS[0]}.*503"):
        dataset[1]


def test_what_needs_local_files_refuses_addresses(store):
    with pytest.raises(stoker.errors.UnsupportedError, match="local files"):
        VideoDataset(["s3://bucket/a.mp4"], preset="qwen2-vl")
    with pytest.raises(stoker.errors.UnsupportedError, match="local files"):
        ImageDataset(["s3://bucket/a.jpg"], resize="keep")


# ----------------------------------------------------------------------------------------------------------------- Parquet


@pytest.fixture
def parquet():
    pytest.importorskip("pyarrow")
    return pytest.importorskip("pyarrow.parquet")


def write_parquet(parquet, path, columns):
    import pyarrow

    parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
    return path


def test_parquet_columns_of_paths(parquet, tmp_path):
    columns = {"path": [os.path.relpath(GOLDEN / name, tmp_path) for name in CLIPS], "caption": ["a", "b", "c", "d"]}
    dataset = ParquetDataset(write_parquet(parquet, tmp_path / "a.parquet", columns), "path", **FORM)
    made = same_batches(dataset, 2, batch_size=2)
    assert made[1]["caption"] == ["c", "d"]  # of two row groups
    assert torch.equal(made[1]["video"][1], VideoDataset([GOLDEN / CLIPS[3]], **FORM)[0])
    same(pickle.loads(pickle.dumps(dataset))[2], dataset[2])


@pytest.mark.parametrize("struct", [False, True])
def test_parquet_columns_of_embedded_media(parquet, tmp_path, pictures, struct):
    data = [path.read_bytes() for path in pictures]
    column = [{"bytes": one, "path": None} for one in data] if struct else data
    path = write_parquet(parquet, tmp_path / "a.parquet", {"image": column, "label": [5, 6, 7, 8]})
    with pytest.raises(stoker.errors.CallerError, match="cache_dir= must name a local folder"):
        ParquetDataset(path, "image", size=16, kind="image", fields=["label"])
    form = {"kind": "image", "size": 16, "cache_dir": tmp_path / "cache"}
    with pytest.raises(stoker.errors.CallerError, match="no column 'labels'"):
        ParquetDataset(path, "image", fields=["labels"], **form)
    dataset = ParquetDataset([path], "image", **form)
    made = same_batches(dataset, 2, batch_size=2)
    assert made[0]["label"].tolist() == [5, 6]
    assert torch.equal(made[1]["image"][0], ImageDataset(pictures, size=16)[2])
    copied = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.media")}
    assert len(copied) == 1
    ParquetDataset([path], "image", **form)
    assert copied == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.media")}


def test_faults_of_parquet_files_name_them(parquet, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"nothing at all")
    with pytest.raises(stoker.errors.DataError, match=r"a.parquet: this is no Parquet file"):
        ParquetDataset(tmp_path, "path", **FORM)
    with pytest.raises(stoker.errors.DataError, match=r"gone.parquet: the Parquet file cannot be opened"):
        ParquetDataset(tmp_path / "gone.parquet", "path", **FORM)
    columns = {"path": [str(GOLDEN / CLIPS[0]), None], "n": [1, None], "x": [0.5, 1.0]}
    path = write_parquet(parquet, tmp_path / "b.parquet", columns)
    with pytest.raises(stoker.errors.DataError, match=r"b.parquet: row 1 has no path"):
        ParquetDataset(path, "path", **FORM)
    with pytest.raises(stoker.errors.CallerError, match="the column 'x' is double; texts or binary were expected"):
        ParquetDataset(path, "x", **FORM)
    columns["path"] = [str(GOLDEN / CLIPS[0])] * 2
    dataset = ParquetDataset(write_parquet(parquet, path, columns), "path", **FORM)
    assert dataset[0]["n"] == 1
    with pytest.raises(stoker.SampleError, match=r"sample 1: .*b.parquet: the column 'n' is null"):
        dataset[1]
    os.utime(path, ns=(5, 5))
    dataset._open()
    with pytest.raises(stoker.errors.DataError, match="the file was changed since"):
        dataset[0]


# ---------------------------------------------------------------------------------------------------------------- captions


@pytest.fixture
def tokenizer(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[PAD]": 7, "[UNK]": 0, "a": 1, "cat": 2, "zwei": 3, "Bäume": 4, "last": 5}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_padding(pad_id=7, pad_token="[PAD]")
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_captions_become_ids_of_one_length(clips, tokenizer):
    dataset = ManifestDataset(clips[0], captions=Captions(tokenizer, 3), **FORM)
    item = dataset[1]
    assert item["caption"] == "zwei Bäume"
    assert (item["tokens"].tolist(), item["length"]) == ([3, 4, 7], 2)
    made = same_batches(dataset, 2, batch_size=2)
    assert made[0]["tokens"].dtype == torch.int64
    assert made[0]["tokens"].tolist() == [[1, 2, 7], [3, 4, 7]]
    assert made[1]["length"].tolist() == [0, 1]
    same_batches(pickle.loads(pickle.dumps(dataset)), 4, batch_size=None)
    assert ManifestDataset(clips[0], captions=Captions(tokenizer, 1, pad_id=9), **FORM)[1]["tokens"].tolist() == [3]


def test_captions_of_shards(shards, tokenizer):
    made = same_batches(WebDataset(shards, captions=Captions(tokenizer, 4), **FORM), 2, batch_size=2)
    assert made[0]["tokens"].tolist() == [[0, 0, 7, 7], [0, 0, 7, 7]]


def test_captions_that_cannot_be_made_are_told(clips, tokenizer, tmp_path):
    with pytest.raises(stoker.errors.CallerError, match="captions= wants a field 'title'"):
        ManifestDataset(clips[0], captions=Captions(tokenizer, 3, "title"), **FORM)
    with pytest.raises(stoker.errors.DataError, match="this is no tokenizer.json"):
        Captions(clips[0], 3)
    dataset = ManifestDataset(clips[0], captions=Captions(tokenizer, 3, "id"), **FORM)
    loader = DistributedDataLoader(dataset, 2, num_workers=1)
    with pytest.raises(stoker.SampleError, match=r"sample 0: .*vfr.mp4: the field 'id' is no text: 10"):
        next(iter(loader))
    loader.close()
