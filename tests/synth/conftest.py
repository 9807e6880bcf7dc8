"""A small default source and an independent reader of it: tarfile, json and cv2, none of the project's own code."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from gc25d_core.synth import write_source

SIZE = (96, 48)


@dataclass
class ReadRun:
    """A run as it lies on disk: `members` name -> bytes, `order` (shard, name) as stored."""

    folder: Path
    run_json: dict[str, Any]
    blocks: list[dict[str, Any]]
    members: dict[str, bytes]
    order: list[tuple[str, str]]
    headers: list[tarfile.TarInfo]

    def frames(self) -> list[int]:
        return sorted(int(name[:-5]) for name in self.members if name.endswith(".json"))

    def json(self, frame: int) -> dict[str, Any]:
        return json.loads(self.members[f"{frame:06d}.json"])

    def ids(self, frame: int) -> np.ndarray:
        return cv2.imdecode(np.frombuffer(self.members[f"{frame:06d}.ids.png"], np.uint8), cv2.IMREAD_UNCHANGED)

    def rgb(self, frame: int) -> np.ndarray:
        return cv2.imdecode(np.frombuffer(self.members[f"{frame:06d}.jpg"], np.uint8), cv2.IMREAD_COLOR)[..., ::-1]


def read_run(folder: Path) -> ReadRun:
    members, order, headers = {}, [], []
    for shard in sorted(folder.glob("shard-*.tar")):
        with tarfile.open(shard) as tar:
            for info in tar:
                handle = tar.extractfile(info)
                assert handle is not None
                assert info.name not in members, f"{info.name} twice"
                members[info.name] = handle.read()
                order.append((shard.name, info.name))
                headers.append(info)
    blocks = [json.loads(line) for line in (folder / "blocks.jsonl").read_text().splitlines()]
    return ReadRun(folder, json.loads((folder / "run.json").read_text()), blocks, members, order, headers)


@pytest.fixture(scope="session")
def read():
    """The reader, for tests that write their own source."""
    return read_run


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReadRun]:
    """The default set, 4 runs of 2 clips at 96x48, read from disk."""
    root = tmp_path_factory.mktemp("source")
    write_source(root, runs=4, clips=2, size=SIZE, seed=0, workers=1)
    return {folder.name: read_run(folder) for folder in sorted(root.iterdir())}


def silhouettes(
    camera: dict[str, Any], capsules: list[dict[str, Any]], size: tuple[int, int], at: float = 0.5
) -> np.ndarray:
    """10 and 11 where the ray through pixel (i + at, j + at) meets the player or the boss first, else 0.

    Each capsule is its two spheres and the cylinder between them; distances in cm along unit rays from the camera.
    """
    width, height = size
    matrix = np.array(camera["world_to_camera"])
    x = (np.arange(width) + at - camera["cx"]) / camera["fx"]
    y = (np.arange(height) + at - camera["cy"]) / camera["fy"]
    rays = np.stack([*np.meshgrid(x, y), np.ones((height, width))], axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    nearest = np.full((height, width), np.inf)
    owner = np.zeros((height, width), np.uint8)
    for capsule in capsules:
        a, b = (matrix[:3, :3] @ np.array(capsule[end]) + matrix[:3, 3] for end in "ab")
        radius = capsule["radius"]
        hit = np.full((height, width), np.inf)
        for centre in (a, b):
            middle = rays @ centre
            inside = middle**2 - centre @ centre + radius**2
            hit = np.minimum(hit, np.where(inside >= 0, middle - np.sqrt(np.maximum(inside, 0)), np.inf))
        length = np.linalg.norm(b - a)
        if length > 0:
            axis = (b - a) / length
            across = rays - (rays @ axis)[..., None] * axis
            start = -a + (a @ axis) * axis
            p, q, r = (across**2).sum(-1), across @ start, start @ start - radius**2
            root = q**2 - p * r
            t = (-q - np.sqrt(np.maximum(root, 0))) / p
            along = t * (rays @ axis) - a @ axis
            hit = np.minimum(hit, np.where((root >= 0) & (along >= 0) & (along <= length), t, np.inf))
        closer = hit < nearest
        nearest[closer] = hit[closer]
        owner[closer] = 10 if capsule["owner"] == "player" else 11
    return owner


@pytest.fixture(scope="session")
def analytic():
    """The analytic silhouette renderer."""
    return silhouettes
