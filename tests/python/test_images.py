# SPDX-License-Identifier: Apache-2.0
"""Images: the bytes of Pillow for every kind of file, one clear error for every bad one; the same through the loader."""

import io
import os
import pathlib
import pickle
import random
import struct
import sys
import zlib

import numpy as np
import pytest
import torch
from datasets import same_epoch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Subset

from stoker import SampleError, errors
from stoker.media import ImageDataset, probe_image, read_image
from stoker.torch import DistributedDataLoader

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))

import make_image_corpus  # noqa: E402

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
FORMATS = {"JPEG": {"quality": 90}, "PNG": {}, "WEBP": {"lossless": True, "exact": True}, "GIF": {"interlace": 0}}
WIDTH, HEIGHT = 101, 67


def photograph(width=WIDTH, height=HEIGHT, seed=1):
    """Waves and noise: smooth where photographs are, and with edges."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 100 * np.sin(x / (7 + 3 * c) + y / (11 - c) + c + seed) for c in range(3)]
    values = np.stack(waves, -1) + rng.normal(0, 8, (height, width, 3))
    values[height // 3 : height // 2, width // 4 : width // 2] = (250, 20, 90)
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def with_alpha(image, seed=2):
    alpha = np.random.default_rng(seed).integers(0, 256, image.size[::-1], np.uint8)
    image = image.convert("RGBA")
    image.putalpha(Image.fromarray(alpha))
    return image


def encode(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def available(form):
    try:
        read_image(encode(photograph(8, 8), form))
    except errors.UnsupportedError:
        return False
    return True


MISSING = {form for form in FORMATS if not available(form)}


def needs(*forms):
    return pytest.mark.skipif(bool(MISSING & set(forms)), reason=f"this build has no decoder for {', '.join(forms)}")


each_format = pytest.mark.parametrize("form", [pytest.param(form, marks=needs(form)) for form in FORMATS])


def read(data, *arguments, **form):
    return read_image(data, *arguments, **{"layout": "HWC", "as_numpy": True, **form})[0]


def opened(data):
    return Image.open(io.BytesIO(data))


def pillow(data):
    return np.asarray(opened(data).convert("RGB"))


# ------------------------------------------------------------------------------------------------------------- formats


def kinds():
    image = photograph()
    grey, palette = image.convert("L"), image.quantize(13)
    moving = {"save_all": True, "append_images": [image.rotate(90 * i, expand=False) for i in (1, 2)]}
    cmyk = encode(image.convert("CMYK"), "JPEG", quality=90)
    adobe = cmyk.index(b"Adobe")
    return {
        "JPEG": {
            **{f"jpeg_q{q}_s{s}": encode(image, "JPEG", quality=q, subsampling=s) for q in (60, 95) for s in (0, 1, 2)},
            "jpeg_progressive": encode(image, "JPEG", progressive=True),
            "jpeg_grey": encode(grey, "JPEG"),
            "jpeg_cmyk": cmyk,
            "jpeg_ycck": cmyk[: adobe + 11] + b"\2" + cmyk[adobe + 12 :],
            "jpeg_rgb": encode(image, "JPEG", keep_rgb=True),
            "jpeg_restart": encode(image, "JPEG", restart_marker_blocks=3),
        },
        "PNG": {
            "png_rgb": encode(image, "PNG"),
            "png_rgba": encode(with_alpha(image), "PNG"),
            "png_l": encode(grey, "PNG"),
            "png_la": encode(with_alpha(image).convert("LA"), "PNG"),
            "png_1": encode(image.convert("1"), "PNG"),
            "png_p": encode(image.quantize(200), "PNG"),
            "png_p2": encode(image.quantize(4), "PNG", bits=2),
            "png_p4_transparent": encode(palette, "PNG", bits=4, transparency=3),
            "png_l_transparent": encode(grey, "PNG", transparency=100),
            "png_rgb_transparent": encode(image, "PNG", transparency=(1, 2, 3)),
            "png_interlaced": make_image_corpus.png(
                WIDTH, HEIGHT, 8, 2, make_image_corpus.interlaced_rows(np.asarray(image)), 1
            ),
            "apng": encode(image, "PNG", **moving),
        },
        "WEBP": {
            "webp_lossy": encode(image, "WEBP", quality=80),
            "webp_lossy_alpha": encode(with_alpha(image), "WEBP", quality=80, exact=True),
            "webp_lossless": encode(image, "WEBP", lossless=True),
            "webp_lossless_alpha": encode(with_alpha(image), "WEBP", lossless=True, exact=True),
            "webp_moving": encode(image, "WEBP", **moving),
        },
        "GIF": {
            "gif": encode(image, "GIF"),
            "gif_grey": encode(grey, "GIF"),
            "gif_two_colours": encode(image.quantize(2), "GIF"),
            "gif_transparent": encode(palette, "GIF", transparency=3),
            "gif_interlaced": encode(palette, "GIF", interlace=1),
            "gif_moving": encode(image, "GIF", **moving),
        },
    }


KINDS = kinds()


@pytest.mark.parametrize(
    "data",
    [pytest.param(data, id=name, marks=needs(form)) for form, group in KINDS.items() for name, data in group.items()],
)
def test_each_kind_of_file_equals_pillow(data):
    assert np.array_equal(read(data), pillow(data))
    facts = probe_image(data)
    assert (facts["width"], facts["height"]) == opened(data).size and facts["bytes"] == len(data)


def test_probe_says_what_a_file_is():
    for form, channels, depth, name in (
        ("JPEG", 4, 8, "jpeg_cmyk"),
        ("JPEG", 1, 8, "jpeg_grey"),
        ("PNG", 2, 8, "png_la"),
        ("PNG", 1, 1, "png_1"),
        ("WEBP", 4, 8, "webp_lossless_alpha"),
        ("GIF", 4, 8, "gif_transparent"),
    ):
        facts = probe_image(KINDS[form][name])
        assert (facts["format"], facts["channels"], facts["bit_depth"]) == (form.lower(), channels, depth), name


@needs("PNG")
def test_16_bits_are_reduced_to_the_nearest():
    deep = np.random.default_rng(5).integers(0, 65536, (HEIGHT, WIDTH, 3)).astype(np.uint16)
    nearest = np.rint(deep / 257).astype(np.uint8)
    data = make_image_corpus.png(
        WIDTH, HEIGHT, 16, 2, make_image_corpus.deep_rows(deep.reshape(HEIGHT, -1).astype(np.uint32))
    )
    assert np.array_equal(read(data), nearest)
    assert np.abs(pillow(data).astype(int) - nearest).max() <= 1  # Pillow keeps the upper half
    grey = encode(Image.fromarray(deep[..., 0]), "PNG")
    assert opened(grey).mode == "I;16" and probe_image(grey)["bit_depth"] == 16
    assert np.array_equal(read(grey), np.repeat(nearest[..., :1], 3, axis=2))


@pytest.mark.parametrize("form", [pytest.param(form, marks=needs(form)) for form in ("PNG", "WEBP")])
def test_alpha_is_dropped_or_composited(form):
    image = with_alpha(photograph())
    data = encode(image, form, **FORMATS[form])
    assert np.array_equal(read(data), np.asarray(image)[..., :3])
    below = Image.new("RGB", image.size, (10, 200, 90))
    below.paste(image, mask=image.getchannel("A"))
    assert np.array_equal(read(data, background=(10, 200, 90)), np.asarray(below))


# ----------------------------------------------------------------------------------------------------------- the filter


def short_side_crop(image, height, width, filter):
    """What the usual processors do: the long side cut to whole pixels, the crop at the rounded middle."""
    w, h = image.size
    scaled = (w * height // h, height) if w * height >= h * width else (width, h * width // w)
    scaled = max(scaled[0], width), max(scaled[1], height)
    x, y = round((scaled[0] - width) / 2), round((scaled[1] - height) / 2)
    return image.resize(scaled, FILTERS[filter]).crop((x, y, x + width, y + height))


@needs("PNG")
@pytest.mark.parametrize("filter", FILTERS)
def test_exact_equals_pillow_on_random_sizes(filter):
    draw = random.Random(filter)
    noise = np.random.default_rng(6)
    for _ in range(250):
        width, height = draw.randint(1, 400), draw.randint(1, 300)
        image = Image.fromarray(noise.integers(0, 256, (height, width, 3), np.uint8))
        data = encode(image, "PNG", compress_level=0)
        to_width, to_height = draw.randint(1, 300), draw.randint(1, 300)
        got = read(data, (to_height, to_width), resize="exact", filter=filter)
        wanted = np.asarray(image.resize((to_width, to_height), FILTERS[filter]))
        assert np.array_equal(got, wanted), (width, height, to_width, to_height)
        got = read(data, (to_height, to_width), filter=filter)
        wanted = np.asarray(short_side_crop(image, to_height, to_width, filter))
        assert np.array_equal(got, wanted), (width, height, to_width, to_height)


@needs("PNG")
@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_exact_is_within_a_level_of_torch(filter, dtype):
    """torch rounds its weights (uint8), or nothing before the end (float32): single values differ. Pillow's are ours."""
    draw = random.Random(filter)
    means = []
    for seed in range(40):
        image = photograph(draw.randint(40, 500), draw.randint(40, 400), seed)
        scale = draw.uniform(0.15, 1.5)
        size = max(1, round(image.height * scale)), max(1, round(image.width * scale))
        planes = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].to(dtype)
        wanted = torch.nn.functional.interpolate(planes, size, mode=filter, antialias=True)
        wanted = wanted.float().round().clamp(0, 255)[0].numpy()
        got = read(encode(image, "PNG", compress_level=0), size, resize="exact", filter=filter, layout="CHW")
        apart = np.abs(got - wanted)
        means.append(apart.mean())
        assert np.quantile(apart, 0.99) <= 1, (image.size, size)
    assert np.mean(means) <= 0.2 and np.max(means) <= 0.3


@needs("JPEG")
def test_fast_reduces_large_jpegs():
    for seed, (width, height), size, reduced in (
        (1, (640, 427), 224, 1),
        (2, (905, 673), 224, 2),
        (3, (1601, 1351), 224, 4),
        (4, (2400, 1900), 224, 4),
    ):
        data = encode(photograph(width, height, seed).resize((width, height)), "JPEG", quality=90)
        form = {"layout": "HWC", "as_numpy": True, "filter": "bicubic"}
        exact, fast = (read_image(data, size, mode=mode, **form) for mode in ("exact", "fast"))
        assert exact[1]["reduced"] == 1 and fast[1]["reduced"] == reduced
        apart = np.abs(fast[0].astype(int) - exact[0])
        assert apart.mean() <= 1.5 and (reduced > 1 or not apart.any())
        assert np.abs(fast[0].mean((0, 1)) - exact[0].mean((0, 1))).max() <= 0.5  # and not shifted in colour


# --------------------------------------------------------------------------------------------------------- orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", [pytest.param(form, marks=needs(form)) for form in ("JPEG", "PNG", "WEBP")])
def test_orientation_is_applied_unless_it_is_not_wanted(form, orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    data = encode(photograph(), form, exif=exif, **FORMATS[form])
    turned = ImageOps.exif_transpose(opened(data)).convert("RGB")
    assert probe_image(data)["orientation"] == orientation
    assert (probe_image(data)["width"], probe_image(data)["height"]) == turned.size
    assert np.array_equal(read(data), np.asarray(turned))
    assert np.array_equal(read(data, orientation=False), pillow(data))
    for filter, kind in FILTERS.items():
        got = read(data, (53, 37), resize="exact", filter=filter)
        assert np.array_equal(got, np.asarray(turned.resize((37, 53), kind)))
        assert np.array_equal(read(data, 48, filter=filter), np.asarray(short_side_crop(turned, 48, 48, filter)))


@needs("JPEG")
def test_47_orientation_6_is_shown_upright():
    exif = Image.Exif()
    exif[0x112] = 6
    data = encode(photograph(320, 240), "JPEG", exif=exif)
    assert read(data).shape == (320, 240, 3)
    assert read(data, orientation=False).shape == (240, 320, 3)


@needs("JPEG")
def test_hostile_exif_is_not_looked_at():
    image = photograph()
    plain = encode(image, "JPEG")
    tiff = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 1) + struct.pack("<HHII", 0x112, 3, 1, 6)
    for block in (
        tiff[:9],
        b"II*\0\xff\xff\xff\xff",
        b"MM\0*\0\0\0\0",
        tiff[:8] + b"\xff\xff" + tiff[10:-4] + struct.pack("<I", 77),
        b"",
        b"garbage" * 100,
    ):
        segment = b"Exif\0\0" + block
        data = plain[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + plain[2:]
        assert probe_image(data)["orientation"] == 1
        assert np.array_equal(read(data), pillow(plain))


# ------------------------------------------------------------------------------------------------------------ bad files


@each_format
def test_56_a_cut_file_is_bad_and_says_where(form):
    data = encode(photograph(), form, **FORMATS[form])
    for cut in sorted({*range(0, 60, 7), *range(60, len(data), max(len(data) // 40, 1)), len(data) - 2}):
        with pytest.raises(errors.DataError) as caught:
            read(data[:cut])
        assert caught.value.status == "CORRUPT"
        assert (
            f"ends at byte {cut}" in str(caught.value)
            or f"{cut} bytes that begin with" in str(caught.value)
            or "is empty" in str(caught.value)
        )


@each_format
def test_56_a_cut_file_can_be_accepted_and_is_marked(form):
    image = photograph()
    data = encode(image, form, **FORMATS[form])
    whole = read(data)
    item, facts = read_image(data, layout="HWC", as_numpy=True, partial="accept")
    assert not facts["partial"] and np.array_equal(item, whole)
    for share in (0.6, 0.8, 0.95):
        part = data[: int(len(data) * share)]
        item, facts = read_image(part, layout="HWC", as_numpy=True, partial="accept")
        assert facts["partial"] and item.shape == whole.shape
        assert np.abs(item[:8].astype(int) - whole[:8]).max() == 0 and not np.array_equal(item, whole)
        assert np.array_equal(item, read_image(part, layout="HWC", as_numpy=True, partial="accept")[0])


@each_format
def test_flipped_bytes_never_crash(form):
    data = encode(photograph(40, 30), form, **FORMATS[form])
    draw = random.Random(form)
    for _ in range(300):
        bad = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        for partial in ("error", "accept"):
            try:
                read(bytes(bad), partial=partial, max_pixels=1 << 20)
            except (errors.DataError, errors.UnsupportedError) as error:
                assert str(error)


def test_huge_sizes_are_refused_before_they_are_decoded():
    ihdr = struct.pack(">IIBBBBB", 60000, 50000, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + make_image_corpus.chunk(b"IHDR", ihdr)
    png += make_image_corpus.chunk(b"IDAT", zlib.compress(b"\0")) + make_image_corpus.chunk(b"IEND", b"")
    assert probe_image(png)["width"] == 60000
    gif = b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0)
    gif += b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\0;"
    jpeg = encode(photograph(16, 12), "JPEG")
    jpeg = jpeg.replace(struct.pack(">HH", 12, 16), struct.pack(">HH", 65535, 65535), 1)
    for data, words in ((png, "60000x50000"), (gif, "65535x65535"), (jpeg, "65535x65535")):
        with pytest.raises(errors.DataError, match=f"{words} pixels, allowed are 65536 a side and 178956970 in all"):
            read(data, 8)
    image = encode(photograph(), "GIF")
    with pytest.raises(errors.DataError, match=f"{WIDTH}x{HEIGHT} pixels.* {WIDTH * HEIGHT - 1} in all"):
        read(image, max_pixels=WIDTH * HEIGHT - 1)
    assert read(image, max_pixels=WIDTH * HEIGHT).shape == (HEIGHT, WIDTH, 3)


def test_what_is_no_image_says_what_it_is(tmp_path):
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "page.png").write_text("<html>404</html>")
    (tmp_path / "bmp.jpg").write_bytes(encode(photograph(), "BMP"))
    (tmp_path / "folder.jpg").mkdir()
    for name, error, words in (
        ("empty.jpg", "CORRUPT", "the file is empty"),
        ("page.png", "CORRUPT", "16 bytes that begin with 3c 68 74 6d are no JPEG, PNG, WebP or GIF"),
        ("bmp.jpg", "CORRUPT", "begin with 42 4d"),
        ("folder.jpg", "UNSUPPORTED", "folder.jpg"),
        ("missing.jpg", "NOT_FOUND", "missing.jpg"),
    ):
        with pytest.raises(SampleError) as caught:
            ImageDataset([tmp_path / name], 8)[0]
        assert caught.value.status == error and words in str(caught.value) and "sample 0" in str(caught.value)


@needs("PNG", "JPEG")
def test_names_say_nothing(tmp_path):
    """What a file is, its bytes decide; any name that the file system takes is a name."""
    png, jpeg = encode(photograph(), "PNG"), encode(photograph(), "JPEG")
    names = [b"wrong.jpg", "gr\u00fcn \U0001f600.png".encode(), b"new\nline.png", b"quote'\".png", b"-rf.png"]
    names.append(b"\xff\xfe.png")
    for name in names:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(png)
    (tmp_path / "no extension").write_bytes(jpeg)
    paths = [os.fsdecode(os.path.join(os.fsencode(tmp_path), name)) for name in names]
    dataset = ImageDataset([*paths, tmp_path / "no extension"], resize="keep", layout="HWC", as_numpy=True)
    for i in range(len(names)):
        assert np.array_equal(dataset[i], pillow(png))
    assert np.array_equal(dataset[len(names)], pillow(jpeg))
    assert np.array_equal(ImageDataset(paths, 16)[5], ImageDataset(paths, 16)[0])


# ------------------------------------------------------------------------------------------------------------- datasets


@pytest.fixture
def folder(tmp_path):
    """Six images of GIF, which every build decodes."""
    (tmp_path / "b").mkdir()
    for i, name in enumerate(("a.gif", "b/1.gif", "b/2.GIF", "c.gif", "d.gif", "e.gif")):
        photograph(60 + 9 * i, 90 - 7 * i, i).save(tmp_path / name, "GIF")
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_sources_of_paths(folder):
    found = [os.path.relpath(path, folder) for path in ImageDataset(folder, 8).paths]
    assert found == ["a.gif", "b/1.gif", "b/2.GIF", "c.gif", "d.gif", "e.gif"]
    (folder / "list.txt").write_text("# images\nb/1.gif\n\nc.gif\n")
    assert ImageDataset(folder / "list.txt", 8).paths == (str(folder / "b/1.gif"), str(folder / "c.gif"))
    assert len(ImageDataset(folder / "a.gif", 8)) == 1
    (folder / "empty").mkdir()
    for source, words in ((folder / "empty", "no image file"), (folder / "gone", "nor an image file")):
        with pytest.raises(errors.CallerError, match=words):
            ImageDataset(source, 8)


def test_items(folder):
    dataset = ImageDataset(folder, (24, 32))
    image = dataset[0]
    assert type(image) is torch.Tensor and image.dtype == torch.uint8 and image.shape == dataset.shape == (3, 24, 32)
    assert torch.equal(dataset[-1], dataset[5]) and torch.equal(dataset[np.int64(2)], dataset[2])
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[3], dataset[3])
    with pytest.raises(IndexError, match="6 images"):
        dataset[6]
    wanted = short_side_crop(Image.open(folder / "a.gif").convert("RGB"), 24, 32, "bilinear")
    assert np.array_equal(image.permute(1, 2, 0).numpy(), np.asarray(wanted))
    assert torch.equal(ImageDataset(folder, (24, 32), layout="HWC")[0], image.permute(1, 2, 0))
    assert ImageDataset(folder, 8, return_index=True)[-1][1] == 5
    assert dataset.describe(1)["sample_bytes"] == image.nbytes
    assert type(ImageDataset(folder, 8, as_numpy=True)[0]) is np.ndarray


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", torch.float32])
@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_normalised_items(folder, dtype, layout):
    mean, std = (0.5, 0.25, 0.1), (0.5, 0.2, 0.3)
    raw = ImageDataset(folder, 32)[1].double() / 255
    wanted = (raw - torch.tensor(mean).view(3, 1, 1).double()) / torch.tensor(std).view(3, 1, 1).double()
    got = ImageDataset(folder, 32, dtype=dtype, mean=mean, std=std, layout=layout)[1]
    got = got if layout == "CHW" else got.permute(2, 0, 1)
    assert str(got.dtype).endswith(str(dtype).removeprefix("torch."))
    assert torch.allclose(got.double(), wanted, atol=0.04 if "16" in str(dtype) else 1e-5)


def test_kept_sizes_and_partial_marks(folder):
    kept = ImageDataset(folder, resize="keep", return_index=True)
    image, index = kept[2]
    assert image.shape == (3, 90 - 14, 60 + 18) and index == 2 and kept.shape == (3, None, None)
    data = (folder / "c.gif").read_bytes()
    (folder / "c.gif").write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(SampleError, match="sample 3: .*c.gif.*ends at byte"):
        ImageDataset(folder, 16)[3]
    marked = ImageDataset(folder, 16, partial="accept", return_partial=True, return_index=True)
    assert [(index, partial) for _, index, partial in marked] == [(i, i == 3) for i in range(6)]
    assert ImageDataset(folder, 16, partial="accept")[3].shape == (3, 16, 16)
    loader = DistributedDataLoader(marked, batch_size=3, num_workers=1)
    assert [batch[2].tolist() for batch in loader] == [[False] * 3, [True, False, False]]
    loader.close()
    kept = ImageDataset(folder, resize="keep", partial="accept", return_partial=True)
    loader = DistributedDataLoader(kept, batch_size=None, num_workers=1)
    assert [(image.shape, partial) for image, partial in loader] == [(image.shape, partial) for image, partial in kept]
    loader.close()


def test_forms_that_are_refused(folder):
    for form in (
        dict(dtype="int8"),
        dict(layout="CWH"),
        dict(resize="crop"),
        dict(filter="nearest"),
        dict(mode="slow"),
        dict(partial="skip"),
        dict(size=0),
        dict(size=None),
        dict(resize="keep"),
        dict(background=(1, 2, 256)),
        dict(background=(1, 2)),
        dict(max_pixels=0),
        dict(mean=(1, 1, 1)),
        dict(return_partial=True),
    ):
        with pytest.raises((ValueError, IndexError)):
            ImageDataset(folder, **{"size": 8, **form})


def test_a8_changed_file_is_a_mismatch(folder):
    dataset = ImageDataset(folder, 8)
    photograph(9, 9).save(folder / "a.gif", "GIF")
    with pytest.raises(SampleError) as caught:
        dataset[0]
    assert caught.value.status == "MISMATCH"


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_equal_the_stock_loader(folder, workers):
    for dataset in (
        ImageDataset(folder, 24),
        ImageDataset(folder, 24, dtype="float32", mean=(0.5,) * 3, std=(0.5,) * 3, return_index=True),
        Subset(ImageDataset(folder, 24, dtype="bfloat16", layout="HWC"), [4, 4, 0]),
        ImageDataset(folder, 24, partial="accept", return_partial=True),
        Subset(ImageDataset(folder, 24, partial="accept", return_partial=True, return_index=True), [3, 1]),
    ):
        for size in (4, None):
            loader = DistributedDataLoader(dataset, batch_size=size, num_workers=workers)
            same_epoch(list(loader), list(DataLoader(dataset, batch_size=size)))
            loader.close()


def test_bad_files_in_the_loader(folder):
    data = (folder / "c.gif").read_bytes()
    (folder / "c.gif").write_bytes(data[:200])
    dataset = ImageDataset(folder, 24)
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=2)
    with pytest.raises(SampleError, match="c.gif.*ends at byte 200"):
        list(loader)
    loader.close()
    loader = DistributedDataLoader(dataset, batch_size=2, num_workers=2, on_error="skip")
    batches = list(loader)
    assert [len(batch) for batch in batches] == [2, 2, 2] and loader.stats()["samples_skipped"] == 1
    assert torch.equal(batches[1][1], batches[1][0])
    loader.close()
