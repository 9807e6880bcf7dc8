"""Strict decoding (nothing cut, corrupt, mis-sized or mis-typed passes) and exact resampling."""

import pickle
import struct
import zlib

import cv2
import numpy as np
import pytest
import simplejpeg

from gc25d_core.classes import RAW_IDS
from gc25d_core.geometry import Geometry
from gc25d_core.images import ImageFault, decode_ids, decode_rgb, resample_ids, resample_rgb
from gc25d_core.png import decode_grey8

SIZE = (96, 48)
GEOMETRY = Geometry.fit(SIZE, (64, 32))
CROPPED = Geometry.fit((102, 48), (64, 32))
DOUBLE = Geometry.fit((128, 64), (64, 32))
SAME = Geometry.fit((64, 32), (64, 32))


def picture(size=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (size[1] // 6, size[0] // 6, 3), np.uint8)
    return cv2.resize(small, size, interpolation=cv2.INTER_CUBIC)


def jpeg(rgb, *flags):
    return cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90, *flags])[1].tobytes()


def id_image(size=SIZE, seed=0):
    return np.random.default_rng(seed).choice(np.array(RAW_IDS, np.uint8), size=size[::-1])


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(rows, *, size=SIZE, depth=8, colour=0, interlace=0, extra=b"", methods=(0, 0)):
    """A PNG of ready-filtered rows: exactly the chunks given, all checksums right."""
    header = struct.pack(">IIBBBBB", *size, depth, colour, *methods, interlace)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + extra
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def filtered(ids, kinds):
    """Rows of `ids` under the given filter types, byte by byte as PNG's section 9 defines them."""
    out = bytearray()
    h, w = ids.shape
    at = ids.astype(int)
    for y in range(h):
        kind = kinds[y % len(kinds)]
        out.append(kind)
        for x in range(w):
            a = at[y, x - 1] if x else 0
            b = at[y - 1, x] if y else 0
            c = at[y - 1, x - 1] if x and y else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            out.append((at[y, x] - (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
    return bytes(out)


def plain_rows(array):
    return b"".join(b"\0" + row.tobytes() for row in array)


def fault(call, *args):
    with pytest.raises(ImageFault) as caught:
        call(*args)
    return caught.value


# ---- JPEG ----


@pytest.mark.parametrize("flags", [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 2)])
def test_a_jpeg_decodes_to_what_cv2_decodes(flags):
    data = jpeg(picture(), *flags)
    expected = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_array_equal(decode_rgb(data, SIZE), expected)


def test_a_red_block_stays_red_and_in_its_place():
    rgb = np.zeros((48, 96, 3), np.uint8)
    rgb[:, :48] = (255, 0, 0)
    out = resample_rgb(decode_rgb(jpeg(rgb), SIZE), GEOMETRY)
    assert (out[:, :28] > (240, -1, -1)).all() and (out[:, :28] < (256, 15, 15)).all()
    assert (out[:, 36:] < 15).all()


@pytest.mark.parametrize("flags", [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1), (cv2.IMWRITE_JPEG_RST_INTERVAL, 2)])
def test_a_jpeg_cut_at_any_byte_is_a_fault(flags):
    data = jpeg(picture(), *flags)
    passed = []
    for n in range(len(data)):
        try:
            decode_rgb(data[:n], SIZE)
            passed.append(n)
        except ImageFault as e:
            assert e.kind == "bad_jpeg" and str(n) in e.got
    assert not passed, f"cut to {passed} of {len(data)} bytes and not noticed"


def test_a_cut_jpeg_is_a_fault_even_where_its_end_marker_is_put_back():
    data = jpeg(picture())
    assert fault(decode_rgb, data[: len(data) // 2] + b"\xff\xd9", SIZE).kind == "bad_jpeg"


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"not an image at all", b"\x89PNG\r\n\x1a\n" + b"\0" * 40])
def test_what_is_no_jpeg_is_a_fault(data):
    assert fault(decode_rgb, data, SIZE).kind == "bad_jpeg"


def test_a_jpeg_of_another_size_is_a_fault_that_says_both_before_any_pixel_is_decoded():
    data = bytearray(jpeg(picture()))
    assert fault(decode_rgb, bytes(data), (64, 32)).got == "96x48"
    frame_header = data.index(b"\xff\xc0")
    data[frame_header + 5 : frame_header + 9] = struct.pack(">HH", 65000, 65000)  # 12 GB of pixels
    caught = fault(decode_rgb, bytes(data), SIZE)
    assert (caught.kind, caught.got, caught.expected) == ("image_size", "65000x65000", "96x48")


def test_a_grey_jpeg_gives_three_equal_channels_and_a_cmyk_one_is_a_fault():
    grey = simplejpeg.encode_jpeg(np.full((48, 96, 1), 77, np.uint8), colorspace="GRAY")
    assert (decode_rgb(grey, SIZE) == 77).all()
    cmyk = simplejpeg.encode_jpeg(np.zeros((48, 96, 4), np.uint8), colorspace="CMYK", colorsubsampling="444")
    assert "JPEG" in fault(decode_rgb, cmyk, SIZE).expected


def test_bytes_after_the_end_are_ignored():
    rgb, ids = picture(), id_image()
    np.testing.assert_array_equal(decode_rgb(jpeg(rgb) + b"\0" * 99, SIZE), decode_rgb(jpeg(rgb), SIZE))
    np.testing.assert_array_equal(decode_ids(png(plain_rows(ids)) + b"junk", SIZE), ids)


# ---- PNG ----


@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (3,), (4,), (0, 1, 2, 3, 4), (4, 3), (3, 4, 2, 1)], ids=str)
def test_every_row_filter_is_undone(kinds):
    noise = np.random.default_rng(1).integers(0, 256, (48, 96), np.uint8)
    np.testing.assert_array_equal(decode_grey8(png(filtered(noise, kinds)), SIZE), noise)
    blocks = np.kron(id_image((24, 12)), np.ones((4, 4), np.uint8))
    np.testing.assert_array_equal(decode_ids(png(filtered(blocks, kinds)), SIZE), blocks)


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_pngs_of_a_common_writer_decode(level):
    ids = id_image()
    data = cv2.imencode(".png", ids, [cv2.IMWRITE_PNG_COMPRESSION, level])[1].tobytes()
    np.testing.assert_array_equal(decode_ids(data, SIZE), ids)


def test_pixel_data_in_many_chunks_and_ancillary_chunks_decode():
    ids = id_image()
    whole = png(plain_rows(ids), extra=chunk(b"tEXt", b"Comment\0hi") + chunk(b"gAMA", struct.pack(">I", 45455)))
    packed = zlib.compress(plain_rows(ids))
    split = b"".join(chunk(b"IDAT", packed[n : n + 100]) for n in range(0, len(packed), 100)) + chunk(b"IDAT", b"")
    for data in (whole, whole.replace(chunk(b"IDAT", packed), split)):
        np.testing.assert_array_equal(decode_ids(data, SIZE), ids)


def test_an_interlaced_png_decodes():
    ids = id_image()
    rows = b""
    for x0, y0, dx, dy in [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]:
        rows += plain_rows(ids[y0::dy, x0::dx])
    data = png(rows, interlace=1)
    np.testing.assert_array_equal(decode_ids(data, SIZE), ids)
    assert fault(decode_ids, png(rows[:-500], interlace=1), SIZE).kind == "bad_png"


def test_a_png_cut_at_any_byte_is_a_fault():
    data = png(filtered(np.kron(id_image((24, 12)), np.ones((4, 4), np.uint8)), (4,)))
    for n in range(len(data)):
        caught = fault(decode_ids, data[:n], SIZE)
        assert caught.kind == "bad_png" and (n < 8 or f"cut at byte {n}" in caught.got), n


def test_any_flipped_bit_of_a_png_is_a_fault():
    data = png(plain_rows(np.kron(id_image((12, 6)), np.ones((8, 8), np.uint8))))
    for n in range(len(data)):
        damaged = bytearray(data)
        damaged[n] ^= 1 << n % 8
        fault(decode_ids, bytes(damaged), SIZE)


@pytest.mark.parametrize(
    ("depth", "colour", "width", "says"),
    [
        (16, 0, 192, "16-bit greyscale"),
        (1, 0, 12, "1-bit greyscale"),
        (8, 2, 288, "8-bit RGB"),
        (8, 4, 192, "8-bit greyscale with alpha"),
        (8, 6, 384, "8-bit RGB with alpha"),
        (8, 3, 96, "8-bit palette"),
    ],
)
def test_a_png_of_another_kind_is_a_fault_that_says_what_it_is(depth, colour, width, says):
    palette = chunk(b"PLTE", bytes(range(33))) if colour == 3 else b""
    caught = fault(
        decode_ids, png(plain_rows(np.zeros((48, width), np.uint8)), depth=depth, colour=colour, extra=palette), SIZE
    )
    assert (caught.kind, caught.got, caught.expected) == ("png_format", says + " PNG", "8-bit greyscale PNG")


def test_pngs_that_break_their_format_are_faults():
    rows = plain_rows(id_image())
    bad_filter = b"\5" + rows[1:]
    transparent = chunk(b"tRNS", b"\0\3")
    assert fault(decode_ids, png(rows, extra=transparent), SIZE).kind == "png_format"
    assert fault(decode_ids, png(bad_filter), SIZE).got == "filter type 5"
    assert "PLTE" in fault(decode_ids, png(rows, extra=chunk(b"PLTE", b"\0\0\0")), SIZE).got
    assert fault(decode_ids, png(rows, methods=(1, 0)), SIZE).kind == "bad_png"
    assert fault(decode_ids, png(rows[:-1]), SIZE).got == "4655 bytes of pixel data"
    assert fault(decode_ids, png(rows + b"\0"), SIZE).got == "4657 bytes or more of pixel data"
    assert fault(decode_ids, jpeg(picture()), SIZE).kind == "bad_png"


def test_pixel_data_that_does_not_inflate_is_a_fault_though_its_chunk_checksum_is_right():
    rows = plain_rows(id_image())
    packed = zlib.compress(rows)
    for broken in (
        b"",
        packed[:-1],
        packed[:-4] + b"\0\0\0\0",
        packed[:40] + b"\xff\xff" + packed[42:],
        b"\0\0" + packed,
    ):
        data = png(rows).replace(chunk(b"IDAT", packed), chunk(b"IDAT", broken))
        assert fault(decode_ids, data, SIZE).kind == "bad_png"


def test_a_png_of_another_size_is_a_fault_before_anything_is_inflated():
    caught = fault(decode_ids, png(b"", size=(60000, 60000)), SIZE)
    assert (caught.kind, caught.got, caught.expected) == ("image_size", "60000x60000", "96x48")


def test_a_bomb_behind_a_right_header_is_inflated_no_further_than_the_image():
    caught = fault(decode_ids, png(bytes(40_000_000)), SIZE)
    assert caught.got == "4657 bytes or more of pixel data"


# ---- ids ----


def test_an_invalid_id_of_a_single_pixel_is_a_fault_that_names_it():
    for value in set(range(256)) - set(RAW_IDS):
        ids = id_image()
        ids[1, 1] = value  # a pixel that nearest drops: checked after resampling, it would be missed
        assert (resample_ids(ids, GEOMETRY) != value).all()
        caught = fault(decode_ids, png(plain_rows(ids)), SIZE)
        assert caught.kind == "bad_ids" and f"[{value}]" in caught.got
        assert ("body parts" in caught.got) == (12 <= value <= 21)


def test_all_invalid_ids_are_named_and_body_parts_especially():
    ids = id_image()
    ids[0, :4] = (255, 12, 7, 21)
    caught = fault(decode_ids, png(plain_rows(ids)), SIZE)
    assert caught.got == "ids [7, 12, 21, 255] ([12, 21] would pass as body parts)"
    assert pickle.loads(pickle.dumps(caught)).got == caught.got


@pytest.mark.parametrize("geometry", [GEOMETRY, CROPPED, DOUBLE, SAME])
def test_ids_are_picked_and_never_interpolated(geometry):
    w, h = geometry.source
    for seed in range(5):
        ids = id_image(geometry.source, seed)
        out = resample_ids(ids, geometry)
        assert set(np.unique(out)) <= set(np.unique(ids))
    unique = (np.arange(h)[:, None] * 7 + np.arange(w) * 13).astype(np.uint8)
    out = resample_ids(unique, geometry)
    f, (x0, y0, _, _) = float(geometry.factor), geometry.crop
    for j, i in [(0, 0), (1, 2), (17, 40), (31, 63)]:
        assert out[j, i] == unique[y0 + int((j + 0.5) * f), x0 + int((i + 0.5) * f)]


# ---- RGB ----


@pytest.mark.parametrize("geometry", [GEOMETRY, CROPPED, Geometry.fit((1280, 720), (832, 480)), DOUBLE, SAME])
def test_area_resampling_equals_cv2_bit_by_bit(geometry):
    w, h = geometry.source
    x0, y0, cw, ch = geometry.crop
    for rgb in (np.random.default_rng(2).integers(0, 256, (h, w, 3), np.uint8), picture((w, h))):
        expected = cv2.resize(rgb[y0 : y0 + ch, x0 : x0 + cw], geometry.target, interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(resample_rgb(rgb, geometry), expected)


def test_area_resampling_by_three_halves_is_the_rounded_mean_of_the_covered_area():
    rgb = np.random.default_rng(4).integers(0, 256, (48, 96, 3), np.uint8)
    blown = np.kron(rgb, np.ones((2, 2, 1), int))  # a target pixel covers 3x3 half pixels: the mean is S / 9
    sums = blown.reshape(32, 3, 64, 3, 3).sum(axis=(1, 3))
    np.testing.assert_array_equal(resample_rgb(rgb, GEOMETRY), (2 * sums + 9) // 18)


def test_the_division_of_the_fast_path_is_exact_over_its_whole_range():
    n = np.arange(255 * 9 + 5)
    np.testing.assert_array_equal((n * 7282) >> 16, n // 9)


def test_resampled_arrays_are_new_and_owned():
    rgb, ids = np.zeros((32, 64, 3), np.uint8), np.zeros((32, 64), np.uint8)
    assert not np.shares_memory(resample_rgb(rgb, SAME), rgb)
    assert not np.shares_memory(resample_ids(ids, SAME), ids)


def test_arrays_of_another_size_or_type_are_refused():
    with pytest.raises(ValueError, match=r"rgb: got uint8 \(48, 95, 3\), expected uint8 \(48, 96, 3\)"):
        resample_rgb(np.zeros((48, 95, 3), np.uint8), GEOMETRY)
    with pytest.raises(ValueError, match=r"ids: got int64 \(48, 96\), expected uint8"):
        resample_ids(np.zeros((48, 96), np.int64), GEOMETRY)
