"""A clean environment and a source of one tiny run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gc25d_core.settings import Settings
from gc25d_core.synth.numbered import write_numbered_run

RUN = "R1_s7"


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
    write_numbered_run(root, RUN, n_frames=112, clip_starts=[0], family="v10")
    return root


@pytest.fixture(scope="session")
def built_once(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data set of that run, made by the core alone."""
    from gc25d_core.plan import plan_run
    from gc25d_core.prepare import prepare_conditions, prepare_latents
    from gc25d_core.rows import index_run

    out = tmp_path_factory.mktemp("built") / "ds"
    settings = Settings.resolve(src=source, out=out, size=(64, 32), workers=1, cpu_threads=1)
    settings.check_prep_args()
    plan_run(settings, RUN)
    prepare_conditions(settings, RUN)
    prepare_latents(settings, RUN)
    index_run(settings, RUN)
    return out


@pytest.fixture
def built(source: Path, built_once: Path, tmp_path: Path) -> Settings:
    """A copy of source and data set of the test's own."""
    src = Path(shutil.copytree(source, tmp_path / "src"))
    out = Path(shutil.copytree(built_once, tmp_path / "out"))
    return Settings.resolve(src=src, out=out, size=(64, 32), workers=1, cpu_threads=1)
