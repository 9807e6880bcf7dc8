"""Ways to break a data set in exactly one place, and to say what a verification found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from gc25d_core.index import read_index
from gc25d_core.outputs.files import READERS
from gc25d_core.outputs.npz import write_npz
from gc25d_core.rows import Row, encode_rows, read_rows
from gc25d_core.settings import Settings
from gc25d_core.verify import CheckResult

SPOT_VAE = import_module("gc25d_core.verify.spot_vae")  # the package's attribute of that name is the function


def found(results: Iterable[CheckResult]) -> dict[str, set[str | None]]:
    """Check to the clips it names, of the checks that do not pass."""
    return {r.name: {w.get("clip") for w in r.worst} for r in results if not r.passed}


def frames_found(results: Iterable[CheckResult], name: str) -> list[int]:
    """Frames that a check names."""
    return [w["frame"] for r in results if r.name == name for w in r.worst if "frame" in w]


def row_of(settings: Settings, *, ext: bool = True, family: str | None = None) -> Row:
    """The first clip of the index with (or without) an extension."""
    rows, _ = read_index(settings)
    return next(r for r in rows if r.has_ext == ext and family in (None, r.family))


def rewrite(
    settings: Settings, row: Row, kind: str, change: Callable[[dict[str, Any]], None], **provenance: Any
) -> None:
    """Change arrays of a file in place and write it as a whole, valid file again (with provenance fields replaced)."""
    path = settings.paths.clip(kind, row.clip)
    file: Any = READERS[kind](path)
    arrays = {k: np.array(v) for k, v in file.arrays.items()}
    change(arrays)
    said = {**file.provenance, **provenance}
    if kind == "latents":
        import torch

        bits = torch.from_numpy(arrays["latent"].view(np.int16).copy()).view(torch.bfloat16)
        rest = {k: torch.from_numpy(arrays[k].copy()) for k in ("actions_block", "frames")}
        torch.save({"latent": bits, **rest, "provenance": said}, path)
    else:
        with open(path, "wb") as f:
            write_npz(f, arrays, said)


def rewrite_row(settings: Settings, row: Row, **change: Any) -> None:
    """Replace fields of a row on disk."""
    rows = [
        msgspec.structs.replace(r, **change) if r.clip == row.clip else r for r in read_rows(settings.paths, row.run)
    ]
    settings.paths.rows(row.run).write_bytes(encode_rows(rows))


def no_changes(arrays: dict[str, Any]) -> None:
    """For `rewrite` where only provenance changes."""


@pytest.fixture(scope="session")
def tools() -> SimpleNamespace:
    """The functions above."""
    return SimpleNamespace(
        found=found,
        frames_found=frames_found,
        row_of=row_of,
        rewrite=rewrite,
        rewrite_row=rewrite_row,
        no_changes=no_changes,
    )


@pytest.fixture
def easy_psnr(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 64x32 the demo VAE, trained on larger pictures, reconstructs below the floor that real sizes must reach."""
    monkeypatch.setattr(SPOT_VAE, "PSNR_FAIL_DB", 3.0)
    monkeypatch.setattr(SPOT_VAE, "PSNR_USUAL_DB", (3.0, 60.0))
