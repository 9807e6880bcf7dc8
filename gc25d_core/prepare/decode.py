"""A member's bytes to an array; what does not decode becomes a fault that names run, frame, member, shard and offset."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gc25d_core.errors import SourceError
from gc25d_core.images import ImageFault
from gc25d_core.source import RunSource
from gc25d_core.source.tarindex import member_name

_WHAT = {"jpg": "the picture cannot be used", "ids": "the id image cannot be used"}


def decode_member(
    source: RunSource, frame: int, kind: str, decode: Callable[[bytes, tuple[int, int]], np.ndarray]
) -> np.ndarray:
    """`decode(bytes, (width, height))` of a frame's `jpg` or `ids`, at full resolution.

    Raises:
        SourceError: the member is missing, stands twice, or `decode` refuses it (ImageFault).
    """
    try:
        return decode(source.read(frame, kind), source.info.image_size)
    except ImageFault as e:
        fault = source.fault(
            e.kind, _WHAT[kind], frame=frame, member=member_name(frame, kind), got=e.got, expected=e.expected,
            fix="write this member again",
        )  # fmt: skip
        raise SourceError(fault) from None
