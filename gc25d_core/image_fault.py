"""The one exception of image decoding. It knows no path: the caller adds run, frame and member."""

from __future__ import annotations


class ImageFault(Exception):
    """Image bytes that are not what the source format says.

    `kind` is one of `bad_jpeg`, `bad_png` (cut, corrupt, or not such a file), `image_size`, `png_format` (not 8-bit
    greyscale) and `bad_ids` (values that no raw id may have).
    """

    def __init__(self, kind: str, got: str, expected: str) -> None:
        self.kind = kind
        self.got = got
        self.expected = expected
        super().__init__(f"{kind}: got {got}, expected {expected}")

    def __reduce__(self) -> tuple[type[ImageFault], tuple[str, str, str]]:
        return ImageFault, (self.kind, self.got, self.expected)
