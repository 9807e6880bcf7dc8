"""JPEG and PNG bytes of one frame to arrays, and those arrays to target size. Pure: no paths, no state.

Decoding is strict where image libraries are lenient: a cut JPEG is an error, not a grey area; an id image is exactly 8-bit
greyscale with valid checksums. Sizes are read from the header before a pixel is decoded, so a header that promises a
gigapixel costs nothing.

The resampling by cv2 (factors other than 1.5) uses cv2's thread pool: worker processes call `cv2.setNumThreads(0)` once.
"""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np
import simplejpeg

from gc25d_core import png
from gc25d_core.classes import PART_ID, RAW_IDS, invalid_raw_ids
from gc25d_core.geometry import Geometry
from gc25d_core.image_fault import ImageFault
from gc25d_core.image_kernels import area_three_halves, gather

__all__ = ["ImageFault", "check_raw_ids", "decode_ids", "decode_rgb", "resample_ids", "resample_rgb"]


def decode_rgb(jpg: bytes, size: tuple[int, int]) -> np.ndarray:
    """Pixels of a JPEG of `size` (width, height), uint8 [h,w,3] RGB. A grey JPEG gives three equal channels.

    libjpeg-turbo with its accurate DCT and its smooth chroma upsampling (its defaults, and cv2's: the bits are the same).
    EXIF orientation is not applied. Bytes after the end marker are ignored. A flipped bit inside the picture data often still
    decodes: JPEG has no checksum.

    Raises:
        ImageFault: `image_size`; `bad_jpeg` (no JPEG, cut, corrupt where libjpeg can tell, or CMYK).
    """
    width, height = size
    expected = f"a whole JPEG of {width}x{height}"
    try:
        h, w, colours, _ = simplejpeg.decode_jpeg_header(jpg)
        if (w, h) != (width, height):
            raise ImageFault("image_size", f"{w}x{h}", f"{width}x{height}")
        if colours in ("CMYK", "YCCK"):
            raise ImageFault("bad_jpeg", f"a {colours} JPEG", "an RGB JPEG")
        return simplejpeg.decode_jpeg(jpg, "RGB", strict=True)
    except ValueError as e:
        raise ImageFault("bad_jpeg", f"{len(jpg)} bytes that do not decode ({e})", expected) from e


def decode_ids(png_bytes: bytes, size: tuple[int, int]) -> np.ndarray:
    """Raw ids of an 8-bit greyscale PNG of `size` (width, height), uint8 [h,w], every value checked at full resolution.

    Raises:
        ImageFault: those of `png.decode_grey8`, and `bad_ids` with the values.
    """
    ids = png.decode_grey8(png_bytes, size)
    check_raw_ids(ids)
    return ids


def check_raw_ids(ids: np.ndarray) -> None:
    """Raises ImageFault `bad_ids` if uint8 `ids` holds anything but 0..6, 10 and 11.

    Run it before resampling: nearest would drop small regions, and 12..21 would afterwards pass as body parts.
    """
    if not ((ids > 6) & ((ids & 0xFE) != 10)).any():  # 10 and 11 differ in the last bit only
        return
    bad = invalid_raw_ids(ids)
    parts = sorted(set(bad) & set(PART_ID.values()))
    hint = f" ({parts} would pass as body parts)" if parts else ""
    raise ImageFault("bad_ids", f"ids {bad}{hint}", f"only {list(RAW_IDS)}")


def resample_rgb(rgb: np.ndarray, geometry: Geometry) -> np.ndarray:
    """The crop of `rgb` (uint8 [h,w,3] of source size) at target size by area, uint8 [H,W,3].

    Factor 1.5 is exact integer arithmetic and equals cv2.INTER_AREA bit by bit; other factors go through cv2.INTER_AREA.
    """
    _check("rgb", rgb, (*geometry.source[::-1], 3))
    x0, y0, w, h = geometry.crop
    if geometry.factor == Fraction(3, 2):
        return area_three_halves(np.ascontiguousarray(rgb), x0, y0, *geometry.target)
    crop = rgb[y0 : y0 + h, x0 : x0 + w]
    if geometry.factor == 1:
        return crop.copy()
    return cv2.resize(crop, geometry.target, interpolation=cv2.INTER_AREA)


def resample_ids(ids: np.ndarray, geometry: Geometry) -> np.ndarray:
    """The crop of `ids` (uint8 [h,w] of source size) at target size by nearest, uint8 [H,W]; no value is ever invented."""
    _check("ids", ids, geometry.source[::-1])
    return gather(np.ascontiguousarray(ids), geometry.rows, geometry.columns)


def _check(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.dtype != np.uint8 or array.shape != shape:
        raise ValueError(f"{name}: got {array.dtype} {array.shape}, expected uint8 {shape}")
