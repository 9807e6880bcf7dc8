"""The self-check of the fast encoder: what passes, what is remembered, what is asked again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gc25d_core.vae.selfcheck import SelfCheck, check_fast

FRAMES = torch.zeros((5, 16, 16, 3), dtype=torch.uint8)
TRUE = torch.randn(48, 2, 1, 1)


def exact(frames: torch.Tensor) -> torch.Tensor:
    return TRUE


def off_by(share: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda frames: TRUE * (1 + share)


def ask(
    fast: Callable[[torch.Tensor], torch.Tensor], cache: Path | None, vae_hash: str = "a", chunk: int | None = 4
) -> SelfCheck:
    return check_fast(exact, fast, FRAMES, cache_dir=cache, vae_hash=vae_hash, chunk=chunk)


@pytest.mark.parametrize(("share", "passes"), [(1e-3, True), (1.9e-3, True), (2.1e-3, False), (float("nan"), False)])
def test_limit_is_the_tolerance_of_the_encoder(share: float, passes: bool) -> None:
    assert ask(off_by(share), None).passed is passes


def test_running_out_of_memory_fails_the_check() -> None:
    def full(frames: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("no room")

    assert not ask(full, None).passed


def test_a_pass_is_remembered_for_the_same_identity_only(tmp_path: Path) -> None:
    assert not ask(off_by(1e-3), tmp_path).remembered
    assert ask(off_by(1.0), tmp_path).remembered
    assert not ask(off_by(1.0), tmp_path, vae_hash="b").passed
    assert not ask(off_by(1.0), tmp_path, chunk=8).passed


def test_a_failure_is_asked_again(tmp_path: Path) -> None:
    assert not ask(off_by(1.0), tmp_path).passed
    assert ask(off_by(1e-4), tmp_path).passed


def test_a_damaged_note_is_measured_anew(tmp_path: Path) -> None:
    ask(off_by(1e-3), tmp_path)
    (note,) = tmp_path.iterdir()
    note.write_text("{}")
    again = ask(off_by(1e-4), tmp_path)
    assert again.passed and not again.remembered
    assert ask(off_by(1.0), tmp_path).remembered
