#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpus of tests/fuzz/fuzz_image.c, which the C tests of images use too: `make_image_corpus.py FOLDER`.

All pictures are 16x12 and show red = 16 x, green = 20 y, blue = 8 (x + y), so that a test can say what a pixel must be. The
files that lie in the repository were made with Pillow 13.0.0; another version may write other bytes of the same pictures.
What is called damaged_* is refused by the decoder alone, so a build without it accepts the file.
"""

import io
import pathlib
import struct
import sys
import zlib

import numpy
from PIL import Image

WIDTH, HEIGHT = 16, 12
Y, X = numpy.mgrid[0:HEIGHT, 0:WIDTH]
COLOUR = numpy.stack([16 * X, 20 * Y, 8 * (X + Y)], -1).astype(numpy.uint8)
ALPHA = (255 - 16 * X).astype(numpy.uint8)
RGB = Image.fromarray(COLOUR)
RGBA = Image.fromarray(numpy.dstack([COLOUR, ALPHA]))


def encode(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def exif(orientation):
    data = Image.Exif()
    data[0x112] = orientation
    return data


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, kind, rows, interlace=0, extra=b""):
    """A PNG of raw lines, each with its filter byte; what Pillow does not write."""
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def deep_rows(values):
    """Lines of 16 bits, big-endian, without a filter."""
    return b"".join(b"\0" + line.astype(">u2").tobytes() for line in values)


def interlaced_rows(values):
    """The seven passes of an interlaced PNG of 8-bit pixels."""
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    out = b""
    for x, y, dx, dy in passes:
        part = values[y::dy, x::dx]
        if part.size:
            out += b"".join(b"\0" + line.tobytes() for line in part)
    return out


def corpus():
    deep = COLOUR.astype(numpy.uint32) * 257
    jpeg = encode(RGB, "JPEG", quality=95)
    plain = encode(RGB, "PNG")
    lossy, lossless = encode(RGB, "WEBP", quality=95), encode(RGBA, "WEBP", lossless=True, exact=True)
    gif = encode(RGB.quantize(192, dither=0), "GIF")
    frames = [RGB, RGB.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    moving = dict(save_all=True, append_images=frames[1:])
    return {
        "valid_jpeg_420": jpeg,
        "valid_jpeg_444_progressive": encode(RGB, "JPEG", quality=95, subsampling=0, progressive=True),
        "valid_jpeg_restart": encode(RGB, "JPEG", quality=95, restart_marker_blocks=1),
        "valid_jpeg_grey": encode(RGB.convert("L"), "JPEG", quality=95),
        "valid_jpeg_cmyk": encode(RGB.convert("CMYK"), "JPEG", quality=95),
        "valid_jpeg_exif6": encode(RGB, "JPEG", quality=95, exif=exif(6)),
        "valid_jpeg_after_end": jpeg + b"what comes after the end",
        "valid_png_rgb": plain,
        "valid_png_rgba_exif8": encode(RGBA, "PNG", exif=exif(8)),
        "valid_png_grey": encode(RGB.convert("L"), "PNG"),
        "valid_png_palette_trns": encode(RGB.quantize(16, dither=0), "PNG", bits=4, transparency=3),
        "valid_png_deep": png(WIDTH, HEIGHT, 16, 2, deep_rows(deep.reshape(HEIGHT, -1))),
        "valid_png_interlaced": png(WIDTH, HEIGHT, 8, 2, interlaced_rows(COLOUR), 1),
        "valid_apng": encode(frames[0], "PNG", **moving),
        "valid_webp_lossy": lossy,
        "valid_webp_lossless_alpha": lossless,
        "valid_webp_exif3": encode(RGB, "WEBP", lossless=True, exif=exif(3)),
        "valid_webp_animation": encode(frames[0], "WEBP", lossless=True, **moving),
        "valid_gif": gif,
        "valid_gif_transparent": encode(RGB.quantize(8, dither=0), "GIF", transparency=3, interlace=1),
        "valid_gif_moving": encode(frames[0], "GIF", **moving),
        "bad_empty": b"",
        "bad_text": b"<html>no such image</html>",
        "bad_jpeg_cut": jpeg[:-40],
        "bad_jpeg_head": jpeg[:100],
        "bad_jpeg_huge": jpeg.replace(struct.pack(">HH", HEIGHT, WIDTH), b"\xff\xff\xff\xff", 1),
        "bad_png_cut": encode(RGBA, "PNG", compress_level=0)[:-300],
        "damaged_png_crc": plain[:-20] + bytes([plain[-20] ^ 1]) + plain[-19:],
        "bad_png_huge": png(60000, 60000, 8, 2, b"\0"),
        "damaged_png_short": png(WIDTH, HEIGHT, 8, 2, 3 * (b"\0" + bytes(48))),
        "bad_webp_cut": lossy[:-20],
        "bad_webp_head": lossless[:24],
        "bad_gif_cut": gif[:-40],
        "bad_gif_outside": gif[: gif.index(b"\x2c\0\0\0\0") + 1] + b"\x09" + gif[gif.index(b"\x2c\0\0\0\0") + 2 :],
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus().items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
