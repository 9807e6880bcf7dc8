"""A drawn frame as the three members of a source: JPEG, id PNG and json, as bytes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

JPEG_QUALITY = 92


def jpeg_bytes(rgb: NDArray[np.uint8]) -> bytes:
    """JPEG of uint8 [H, W, 3] RGB (the encoder itself wants BGR)."""
    import cv2

    done, data = cv2.imencode(".jpg", np.ascontiguousarray(rgb[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not done:
        raise RuntimeError(f"JPEG encoding failed for {rgb.shape = }, {rgb.dtype = }")
    return data.tobytes()


def png_bytes(ids: NDArray[np.uint8]) -> bytes:
    """8-bit single-channel PNG of uint8 [H, W]."""
    import cv2

    done, data = cv2.imencode(".png", ids, [cv2.IMWRITE_PNG_COMPRESSION, 6])
    if not done:
        raise RuntimeError(f"PNG encoding failed for {ids.shape = }, {ids.dtype = }")
    return data.tobytes()


def json_bytes(value: Any) -> bytes:
    """Compact json; floats keep every digit (shortest text that reads back as the same float64)."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def frame_members(frame: int, rgb: NDArray[np.uint8], ids: NDArray[np.uint8], value: Any) -> list[tuple[str, bytes]]:
    """(member name, bytes) of a frame: six digits, seven where the number needs them."""
    stem = f"{frame:06d}"
    return [
        (f"{stem}.jpg", jpeg_bytes(rgb)),
        (f"{stem}.ids.png", png_bytes(ids)),
        (f"{stem}.json", json_bytes(value)),
    ]
