"""One finished data set for the whole session, made by the real steps at 64x32; tests take copies of it and break them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import gc25d_assets  # noqa: F401  before torch is loaded: OpenMP threads that wait passively
from gc25d_core.index import build_index
from gc25d_core.prepare import prepare_conditions, prepare_latents
from gc25d_core.rows import index_run
from gc25d_core.settings import Settings
from gc25d_core.source import list_runs
from gc25d_core.synth import write_source

TINY_SOURCE = (96, 48)
TINY_TARGET = (64, 32)


@dataclass(frozen=True)
class TinyDataset:
    """A built data set, rows and index included; never verified, so without READY. Do not change it: `copy` it."""

    src: Path
    out: Path

    def copy(self, to: Path, *, source: bool = False) -> Settings:
        """Settings over a copy below `to`; with `source` the recordings are copied too (else they are shared)."""
        shutil.copytree(self.out, to / "out")
        if source:
            shutil.copytree(self.src, to / "src")
        return Settings.resolve(
            src=to / "src" if source else self.src, out=to / "out", size=TINY_TARGET, workers=1, cpu_threads=1
        )


@pytest.fixture(scope="session")
def tiny_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic source of 4 runs (2 of each family) with 2 clips each at 96x48. Read only."""
    root = tmp_path_factory.mktemp("tiny") / "src"
    write_source(root, runs=4, clips=2, size=TINY_SOURCE, seed=0, workers=1)
    return root


@pytest.fixture(scope="session")
def tiny_dataset(tiny_source: Path) -> TinyDataset:
    """The data set of `tiny_source`, made with the demo VAE on the CPU. Read only."""
    out = tiny_source.parent / "out"
    settings = Settings.resolve(src=tiny_source, out=out, size=TINY_TARGET, workers=1, cpu_threads=1)
    settings.check_prep_args()
    for run in list_runs(tiny_source):
        prepare_conditions(settings, run)
        prepare_latents(settings, run)
        index_run(settings, run)
    build_index(settings)
    return TinyDataset(tiny_source, out)


@pytest.fixture
def dataset(tiny_dataset: TinyDataset, tmp_path: Path) -> Settings:
    """A fresh copy of the tiny data set over the shared source."""
    return tiny_dataset.copy(tmp_path)


@pytest.fixture
def dataset_and_source(tiny_dataset: TinyDataset, tmp_path: Path) -> Settings:
    """A fresh copy of the tiny data set and of its source."""
    return tiny_dataset.copy(tmp_path, source=True)


@pytest.fixture
def flip_bit() -> Callable[[Path, int], None]:
    """Flips the lowest bit of one byte of a file (negative positions count from the end)."""

    def flip(path: Path, position: int) -> None:
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)

    return flip
