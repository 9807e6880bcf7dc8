"""Strict decoding of 8-bit greyscale PNG: every checksum is checked, and the image has exactly the promised pixels.

General decoders fill what a cut file lacks and quietly convert palettes and 16 bits; an id image must allow neither. Format:
PNG specification, third edition (W3C), sections 5 (chunks), 9 (filters), 11 (IHDR).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import cv2
import numpy as np
from isal import isal_zlib

from gc25d_core.image_fault import ImageFault
from gc25d_core.image_kernels import png_unfilter

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR = {0: "greyscale", 2: "RGB", 3: "palette", 4: "greyscale with alpha", 6: "RGB with alpha"}


def decode_grey8(data: bytes, size: tuple[int, int]) -> np.ndarray:
    """Pixels of an 8-bit greyscale PNG of `size` (width, height), uint8 [h,w].

    The header is checked first, so nothing is inflated of a file of another size, and never more than the image's bytes.
    Bytes after IEND are ignored: they cannot change a pixel. Interlaced files are read too.

    Raises:
        ImageFault: `image_size`; `png_format` (bit depth, colour type, transparency); `bad_png` (no PNG, cut, a wrong
            checksum, or too little or too much pixel data).
    """
    width, height = size
    chunks = _chunks(data)
    kind, header = next(chunks, (b"", b""))
    if kind != b"IHDR" or len(header) != 13:
        raise ImageFault("bad_png", f"{kind!r} of {len(header)} bytes as first chunk", "IHDR of 13 bytes")
    w, h, depth, colour, compression, filtering, interlace = struct.unpack(">IIBBBBB", header)
    if (w, h) != (width, height):
        raise ImageFault("image_size", f"{w}x{h}", f"{width}x{height}")
    if (depth, colour) != (8, 0):
        name = _COLOUR.get(colour, f"colour type {colour}")
        raise ImageFault("png_format", f"{depth}-bit {name} PNG", "8-bit greyscale PNG")
    if compression or filtering or interlace > 1:
        raise ImageFault(
            "bad_png", f"methods {compression}, {filtering}, {interlace} in IHDR", "methods 0, 0 and 0 or 1"
        )
    packed = []
    for kind, body in chunks:
        if kind == b"IDAT":
            packed.append(body)
        elif kind == b"tRNS":
            raise ImageFault("png_format", "8-bit greyscale PNG with transparency", "8-bit greyscale PNG")
        elif kind != b"IEND" and not kind[0] & 0x20:
            raise ImageFault("bad_png", f"chunk {kind!r}", "IHDR, IDAT, IEND and ancillary chunks only")
    if interlace:
        return _decode_interlaced(data, (width, height))
    raw = _inflate(b"".join(packed), height * (width + 1))
    out, bad_filter = png_unfilter(raw.reshape(height, width + 1))
    if bad_filter >= 0:
        raise ImageFault("bad_png", f"filter type {bad_filter}", "filter types 0..4")
    return out


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(type, body) of each chunk up to and with IEND, checksums checked."""
    if data[:8] != _SIGNATURE:
        raise ImageFault("bad_png", f"{len(data)} bytes that start with {data[:8]!r}", f"a PNG ({_SIGNATURE!r})")
    at, kind = 8, b""
    while kind != b"IEND":
        if at + 8 > len(data):
            raise ImageFault("bad_png", f"a file cut at byte {len(data)}", "chunks up to IEND")
        length = int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(data):
            raise ImageFault(
                "bad_png", f"chunk {kind!r} at byte {at} cut at byte {len(data)}", f"{end + 4} bytes or more"
            )
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ImageFault("bad_png", f"a wrong checksum in chunk {kind!r} at byte {at}", "its CRC-32")
        yield kind, data[at + 8 : end]
        at = end + 4


def _inflate(packed: bytes, length: int) -> np.ndarray:
    stream = isal_zlib.decompressobj()
    try:
        raw = stream.decompress(packed, length + 1)
    except isal_zlib.IsalError as e:  # type: ignore[misc]  # its stub makes it an instance
        raise ImageFault("bad_png", f"pixel data that does not inflate ({e})", "a zlib stream") from e
    if len(raw) != length or not stream.eof:
        more = " or more" if len(raw) > length else ", cut" if not stream.eof else ""
        raise ImageFault("bad_png", f"{len(raw)} bytes{more} of pixel data", f"{length} bytes")
    return np.frombuffer(raw, np.uint8)


def _decode_interlaced(data: bytes, size: tuple[int, int]) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if image is None or image.dtype != np.uint8 or image.shape != (size[1], size[0]):
        got = "nothing that decodes" if image is None else f"{image.dtype} {image.shape}"
        raise ImageFault("bad_png", f"interlaced PNG: {got}", f"uint8 {(size[1], size[0])}")
    return image
