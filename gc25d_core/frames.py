"""Frame arithmetic: frames, blocks, cells, clips and their extensions. Every other module calls this one.

    block b  = frames 4b..4b+3               actions and prompts are given per block
    clip  s  = frames s..s+80 (s % 4 == 0)   81 frames, 21 cells, blocks s//4 .. s//4+19 drive cells 1..20
    extension = frames s+81..s+108           28 frames, cells 21..27, blocks s//4+20 .. s//4+26
    cell 0   = frame s alone; cell k >= 1 = frames s+4k-3 .. s+4k

Block j of a clip (run block s//4 + j) drives cell j+1: its four frames s+4j..s+4j+3 start one frame before the cell's
frames s+4j+1..s+4j+4, because an action given at frame t is seen at t+1.
"""

from __future__ import annotations

BLOCK = 4
CLIP_FRAMES = 81
EXT_FRAMES = 28
FULL_FRAMES = CLIP_FRAMES + EXT_FRAMES
CLIP_CELLS = 21
EXT_CELLS = 7
CLIP_BLOCKS = 20
FULL_BLOCKS = 27


def cells_of(frames: int) -> int:
    """Number of latent cells of `frames` video frames, 1 + (T-1)/4.

    Raises:
        ValueError: T < 1 or T % 4 != 1. Such a video has no whole number of cells, and cutting it silently would
            shift nothing visible and everything that matters. T = 28 is named: it also yields 7 cells, like the
            extension's, but in the wrong phase, because the first frame of any encode stands alone in its cell.
    """
    if frames < 1 or frames % BLOCK != 1:
        hint = (
            " (28 extension frames alone must not be encoded: their cells would be in the wrong phase; encode all "
            "109 frames and take the last 7 cells)"
            if frames == EXT_FRAMES
            else ""
        )
        raise ValueError(f"a video of T = {frames} frames has no whole number of cells: T % 4 must be 1{hint}")
    return 1 + (frames - 1) // BLOCK


def check_start(s: int) -> int:
    """`s` itself if it is a legal clip start (an int >= 0, a multiple of 4), else ValueError."""
    if isinstance(s, bool) or not isinstance(s, int) or s < 0 or s % BLOCK:
        raise ValueError(f"clip start {s!r} is not a non-negative multiple of {BLOCK}")
    return s


def clip_frames(s: int) -> range:
    """The 81 frames of the clip that starts at s."""
    return range(check_start(s), s + CLIP_FRAMES)


def ext_frames(s: int) -> range:
    """The 28 frames of its extension."""
    return range(check_start(s) + CLIP_FRAMES, s + FULL_FRAMES)


def full_frames(s: int, has_ext: bool) -> range:
    """81 frames, or 109 with the extension."""
    return range(check_start(s), s + (FULL_FRAMES if has_ext else CLIP_FRAMES))


def clip_blocks(s: int) -> range:
    """Run blocks s//4 .. s//4+19, which drive cells 1..20."""
    b = check_start(s) // BLOCK
    return range(b, b + CLIP_BLOCKS)


def ext_blocks(s: int) -> range:
    """Run blocks s//4+20 .. s//4+26, which drive cells 21..27."""
    b = check_start(s) // BLOCK
    return range(b + CLIP_BLOCKS, b + FULL_BLOCKS)


def full_blocks(s: int, has_ext: bool) -> range:
    """20 blocks, or 27 with the extension."""
    b = check_start(s) // BLOCK
    return range(b, b + (FULL_BLOCKS if has_ext else CLIP_BLOCKS))


def cell_frames(s: int, k: int) -> range:
    """Frames of cell k (0..27) of the clip that starts at s."""
    check_start(s)
    if k < 0 or k >= CLIP_CELLS + EXT_CELLS:
        raise ValueError(f"cell {k} does not exist: cells are 0..{CLIP_CELLS + EXT_CELLS - 1}")
    return range(s, s + 1) if k == 0 else range(s + 4 * k - 3, s + 4 * k + 1)


def cell_of_block(j: int) -> int:
    """The cell that block j of a clip drives."""
    return j + 1
