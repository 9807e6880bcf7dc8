"""Tiny sources, clean environments, throw-away instances."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest

from gc25d_assets import settings_env
from gc25d_core.synth.numbered import write_numbered_run

RUN, OTHER = "R1_s7", "P2_golden_s8"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No setting of the caller's shell reaches a test; seats are its own."""
    names = [v.name for v in settings_env.VARIABLES]
    for name in (*names, settings_env.EXECUTOR, "CUDA_VISIBLE_DEVICES", "GC25D_DIE_WITH_PARENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GC25D_SEATS_DIR", str(tmp_path / "seats"))
    settings_env.settings.cache_clear()
    yield
    settings_env.settings.cache_clear()


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good runs: one clip with extension, and two clips of which the later has none."""
    root = tmp_path_factory.mktemp("source")
    write_numbered_run(root, RUN, n_frames=112, clip_starts=[0], family="v10")
    write_numbered_run(root, OTHER, n_frames=116, clip_starts=[0, 32], family="v9", scene=(2, "shore"))
    return root


PointAt = Callable[[Path, Path], dict[str, str]]


@pytest.fixture
def point_at(monkeypatch: pytest.MonkeyPatch) -> PointAt:
    """Sets the environment of a small data set (source, output) and returns it."""

    def point(src: Path, out: Path) -> dict[str, str]:
        env = small_environment(src, out)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        settings_env.settings.cache_clear()
        return env

    return point


def small_environment(src: Path, out: Path) -> dict[str, str]:
    return {
        "GC25D_SRC": str(src),
        "GC25D_OUT": str(out),
        "GC25D_SIZE": "64x32",
        "GC25D_DEVICE": "cpu",
        "GC25D_WORKERS": "1",
        "GC25D_CPU_THREADS": "1",
        "GC25D_SPOT_CLIPS": "1",
    }


LISTING = """\
GPU 0: NVIDIA H200 (UUID: GPU-aaaa1111-0000-0000-0000-000000000000)
GPU 1: NVIDIA H200 (UUID: GPU-bbbb2222-0000-0000-0000-000000000000)
GPU 2: NVIDIA L4 (UUID: GPU-cccc3333-0000-0000-0000-000000000000)
"""


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An `nvidia-smi` that knows three GPUs, 140, 140 and 20 GiB; their UUIDs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "nvidia-smi"
    uuids = [line.split("UUID: ")[1].rstrip(")") for line in LISTING.splitlines()]
    memory = "\n".join(f"{uuid}, {mib}" for uuid, mib in zip(uuids, (143360, 143360, 20480), strict=True))
    script.write_text(f'#!/bin/sh\nif [ "$1" = -L ]; then cat <<END\n{LISTING}END\nelse cat <<END\n{memory}\nEND\nfi\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return uuids


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as fresh:
        yield fresh
