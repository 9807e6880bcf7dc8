"""A clean environment and a source of one tiny run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gc25d_core.synth.numbered import write_numbered_run


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the caller's shell reaches a test, and none that a command sets reaches the next one."""
    for name in [n for n in os.environ if n.startswith("GC25D_") or n == "DAGSTER_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setenv("GC25D_SEATS_DIR", str(tmp_path / "seats"))


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of one clip, 96x48, with extension."""
    root = tmp_path_factory.mktemp("source")
    write_numbered_run(root, "R1_s7", n_frames=112, clip_starts=[0], family="v10")
    return root
