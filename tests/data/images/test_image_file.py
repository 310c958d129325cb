"""One way to read an image: every kind of file as its plain copy, and errors that name the file."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data.images.image_file import decode_image, load_image
from regard.errors import DataError

RANDOM = np.random.default_rng(7)
GREY = RANDOM.integers(0, 256, (13, 11), dtype=np.uint8)
COLORED = RANDOM.integers(0, 256, (13, 11, 3), dtype=np.uint8)


def saved(image, form="PNG", **options):
    content = io.BytesIO()
    image.save(content, form, **options)
    return content.getvalue()


def read(image, size=13, form="PNG", **options):
    return decode_image(saved(image, form, **options), size, "made")


def test_grey_palette_and_16_bits_are_as_their_colour_copies_b44():
    plain = read(Image.fromarray(np.stack([GREY] * 3, 2)))
    for grey in (Image.fromarray(GREY), Image.fromarray(GREY.astype(np.uint16) * 257)):
        assert np.array_equal(read(grey).pixels, plain.pixels)
        assert np.array_equal(read(grey, 64).pixels, read(Image.fromarray(np.stack([GREY] * 3, 2)), 64).pixels)
    assert np.array_equal(read(Image.fromarray(GREY), form="PPM").pixels, plain.pixels)
    few = Image.fromarray(COLORED // 128 * 255)
    palette = few.convert("P", palette=Image.Palette.ADAPTIVE, colors=8)
    assert palette.mode == "P" and np.array_equal(read(palette).pixels, read(few).pixels)
    black_and_white = Image.fromarray(GREY > 99)
    assert black_and_white.mode == "1"
    assert np.array_equal(read(black_and_white).pixels[:, 1:12], np.stack([(GREY > 99) * 255] * 3, 2))


def test_a_picture_of_the_square_is_unchanged_whatever_its_file_is_called(tmp_path):
    square = RANDOM.integers(0, 256, (17, 17, 3), dtype=np.uint8)
    for form, options in (("PNG", {}), ("WEBP", {"lossless": True}), ("BMP", {}), ("TIFF", {})):
        (tmp_path / "holiday.jpg").write_bytes(saved(Image.fromarray(square), form, **options))
        placed = load_image(tmp_path / "holiday.jpg", 17)
        assert np.array_equal(placed.pixels, square) and placed.box == (0, 0, 17, 17)


def test_what_is_transparent_is_white_b44():
    half = np.zeros((1, 3, 4), np.uint8)
    half[0, :, 3] = 0, 128, 255  # black, of three strengths
    assert read(Image.fromarray(half), 3).pixels[1, :, 0].tolist() == [255, 127, 0]
    grey = np.zeros((1, 3, 2), np.uint8)
    grey[0, :, 1] = 0, 128, 255
    assert read(Image.fromarray(grey), 3).pixels[1, :, 1].tolist() == [255, 127, 0]
    palette = Image.fromarray(np.array([[0, 1, 2]], np.uint8)).convert("P")
    palette.putpalette([200, 0, 0, 0, 200, 0, 0, 0, 200])
    assert read(palette, 3, transparency=1).pixels[1].tolist() == [[200, 0, 0], [255, 255, 255], [0, 0, 200]]
    keyed = Image.fromarray(np.array([[[9, 9, 9], [8, 7, 6]]], np.uint8))
    assert read(keyed, 2, transparency=(9, 9, 9)).pixels[0].tolist() == [[255] * 3, [8, 7, 6]]


@pytest.mark.parametrize(
    ("width", "height", "box"),
    [
        (1, 1, (0, 0, 64, 64)),
        (3000, 10, (0, 31, 64, 32)),
        (10, 3000, (31, 0, 32, 64)),
        (100, 50, (0, 16, 64, 48)),
        (48, 64, (8, 0, 56, 64)),
        (2, 3, (10, 0, 53, 64)),  # 64 · 2/3 = 42.7
    ],
)
def test_any_size_stands_whole_in_the_middle_k11(width, height, box):
    placed = read(Image.new("RGB", (width, height), (10, 120, 60)), 64)
    inside = np.zeros((64, 64), bool)
    inside[box[1] : box[3], box[0] : box[2]] = True
    assert placed.box == box
    assert (placed.pixels[inside] == (10, 120, 60)).all() and (placed.pixels[~inside] == 255).all()


def test_a_camera_held_on_its_side_b44():
    corners = np.zeros((4, 4, 3), np.uint8)
    corners[0, 0] = 255, 0, 0
    for orientation, (row, column) in {1: (0, 0), 3: (3, 3), 6: (0, 3), 8: (3, 0), 2: (0, 3)}.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        shown = read(Image.fromarray(corners), 4, exif=exif).pixels
        assert np.argwhere(shown[..., 0] == 255).tolist() == [[row, column]]
    exif = Image.Exif()
    exif[0x0112] = 6
    wide = Image.new("RGB", (40, 20), "navy")
    assert read(wide, 40, "JPEG", exif=exif).box == (10, 0, 30, 40)


def test_print_colours_and_the_first_frame():
    cmyk = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    assert np.abs(read(cmyk, 8, "JPEG", quality=100).pixels.astype(int) - [255, 0, 0]).max() <= 4
    frames = [Image.new("RGB", (5, 5), color) for color in ("red", "lime", "blue")]
    moving = read(frames[0], 5, "GIF", save_all=True, append_images=frames[1:])
    assert (moving.pixels == (255, 0, 0)).all()


def test_a_large_picture_is_the_mean_of_its_pixels():
    checks = np.indices((640, 640)).sum(0) % 2 * 255
    small = read(Image.fromarray(checks.astype(np.uint8)), 64).pixels
    assert np.abs(small.astype(int) - 127).max() <= 2


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def claimed(width, height):
    """A small file that says it is large."""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


WHOLE = saved(Image.fromarray(RANDOM.integers(0, 256, (90, 90, 3), dtype=np.uint8)))
JPEG = saved(Image.fromarray(RANDOM.integers(0, 256, (90, 90, 3), dtype=np.uint8)), "JPEG")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"hello, this is a text\n" * 20, "no image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "no image"),
        (WHOLE[: len(WHOLE) // 2], "damaged or cut short"),
        (JPEG[: len(JPEG) // 2], "damaged or cut short"),
        (WHOLE[:20], "no image|damaged"),
        (claimed(60_000, 60_000), "more than 89,478,485 pixels"),
        (claimed(10_000, 9_000), "more than 89,478,485 pixels"),
        (saved(Image.fromarray(np.full((3, 3), 0.5, np.float32)), "TIFF"), "floating-point"),
        (saved(Image.fromarray(np.full((3, 3), 70_000, np.int32)), "TIFF"), "more than 16 bits"),
    ],
)
def test_what_is_no_picture_is_named_b44(tmp_path, content, message):
    file = tmp_path / "strange 中.png"
    file.write_bytes(content)
    with pytest.raises(DataError, match=message) as told:
        load_image(file, 32)
    assert str(file) in str(told.value)


def test_files_that_are_not_there_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "gone.png"):
        with pytest.raises(DataError, match=str(path)):
            load_image(path, 32)
