"""The fast encoder's chunk arithmetic, in float64 on the CPU against DiffSynth's cell by cell encode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gc25d_core.vae.fast import FastEncoder
from gc25d_core.vae.pixels import pixel_table, to_video


@pytest.fixture(scope="module")
def wide(random_vae: Any) -> Any:
    return random_vae(torch.float64)


def diffsynth(vae: Any, frames: torch.Tensor) -> torch.Tensor:
    return vae.encode([to_video(frames, pixel_table()).double()], device="cpu")[0]


def fast(vae: Any, frames: torch.Tensor, chunk: int | None) -> torch.Tensor:
    encoder = FastEncoder(vae, "cpu", torch.float64, chunk=chunk)
    encoder._table = pixel_table().double()
    return encoder.encode(frames)


def rel_l2(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("chunk", [None, 4, 8, 16])
def test_any_chunk_is_the_same_arithmetic_as_cells(wide: Any, chunk: int | None, video: Any) -> None:
    frames = torch.from_numpy(video(21))
    assert rel_l2(fast(wide, frames, chunk), diffsynth(wide, frames)) < 1e-12


def test_a_whole_clip_of_81_frames_equals_20_chunks_of_4(wide: Any, video: Any) -> None:
    frames = torch.from_numpy(video(81, 16, 32))
    assert rel_l2(fast(wide, frames, None), diffsynth(wide, frames)) < 1e-12


def test_one_frame(wide: Any, video: Any) -> None:
    frames = torch.from_numpy(video(1))
    assert rel_l2(fast(wide, frames, None), diffsynth(wide, frames)) < 1e-12


def test_in_float32_it_is_within_the_tolerance_of_the_demo_widths(random_vae: Any, video: Any) -> None:
    vae = random_vae(dim=16)
    frames = torch.from_numpy(video(9))
    theirs = vae.encode([to_video(frames, pixel_table())], device="cpu")[0]
    assert rel_l2(FastEncoder(vae, "cpu", torch.float32).encode(frames), theirs) < 1e-4


def test_an_encoder_keeps_nothing_of_the_clip_before(wide: Any, video: Any) -> None:
    encoder = FastEncoder(wide, "cpu", torch.float64, chunk=4)
    a, b = (torch.from_numpy(video(9, seed=s)) for s in (1, 2))
    first = encoder.encode(a)
    encoder.encode(b)
    assert torch.equal(encoder.encode(a), first)


def test_chunks_must_be_multiples_of_4(wide: Any) -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        FastEncoder(wide, "cpu", chunk=6)


def test_frame_counts_are_checked_here_too(wide: Any, video: Any) -> None:
    with pytest.raises(ValueError, match="T % 4 must be 1"):
        fast(wide, torch.from_numpy(video(28)), None)


def test_tuned_convolutions_leave_the_flag_as_it_was(wide: Any, video: Any) -> None:
    fast(wide, torch.from_numpy(video(5)), None)
    assert torch.backends.cudnn.benchmark is False
