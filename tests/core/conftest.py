"""Hand-made runs: every member is written by the test, so that a test can damage exactly one thing."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from gc25d_core.settings import Settings

SIZE = (96, 48)
POSE = [[1.0, 0, 0, 0], [0, 0, -1.0, 100.0], [0, 1.0, 0, 500.0], [0, 0, 0, 1.0]]


def frame_json(frame: int, **change: Any) -> dict[str, Any]:
    """A legal frame: the player stands 5 m in front of the camera."""
    return {
        "frame": frame,
        "episode": 0,
        "camera_variant": "follow",
        "look": {"biome": "forest", "lighting": "dusk"},
        "mirrored_world": False,
        "bot_mode": "walk",
        "dead": False,
        "camera": {"fx": 80.0, "fy": 80.0, "cx": 48.0, "cy": 24.0, "world_to_camera": POSE},
        "capsules": [
            {"owner": "player", "part": "torso", "a": [0, 0, 60], "b": [0, 0, 120], "radius": 30},
            {"owner": "player", "part": "head", "a": [0, 0, 180], "b": [0, 0, 180], "radius": 20},
        ],
        "unknown": {"ignored": 1},
        **change,
    }


def encode_jpg(rgb: np.ndarray) -> bytes:
    return cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()


def encode_png(ids: np.ndarray) -> bytes:
    return cv2.imencode(".png", ids)[1].tobytes()


@dataclass
class RunBuilder:
    """Members of a run by name, to be changed and then written."""

    run: str
    members: dict[str, bytes] = field(default_factory=dict)
    blocks: list[bytes] = field(default_factory=list)
    run_json: dict[str, Any] = field(default_factory=dict)
    shards: int = 2

    def set_json(self, frame: int, **change: Any) -> None:
        self.members[f"{frame:06d}.json"] = json.dumps(frame_json(frame, **change)).encode()

    def tar_bytes(self) -> list[bytes]:
        """The shards: members dealt out in turn, so that a frame's three members lie in different ones."""
        buffers = [io.BytesIO() for _ in range(self.shards)]
        tars = [tarfile.open(fileobj=b, mode="w") for b in buffers]
        for i, (name, data) in enumerate(self.members.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tars[i % self.shards].addfile(info, io.BytesIO(data))
        for tar in tars:
            tar.close()
        return [b.getvalue() for b in buffers]

    def write(self, src: Path) -> Path:
        folder = src / self.run
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.json").write_text(json.dumps(self.run_json))
        (folder / "blocks.jsonl").write_bytes(b"\n".join(self.blocks) + b"\n")
        for i, data in enumerate(self.tar_bytes()):
            (folder / f"shard-{i:06d}.tar").write_bytes(data)
        return folder


@pytest.fixture
def new_run() -> Callable[..., RunBuilder]:
    """A factory of legal runs: `new_run(frames=112, clip_starts=[0])`."""

    def make(
        run: str = "R10_s1", *, frames: int = 112, first: int = 0, clip_starts: list[int] | None = None
    ) -> RunBuilder:
        b = RunBuilder(run)
        ids = np.full((48, 96), 1, np.uint8)
        ids[:20] = 0
        ids[10:40, 40:56] = 10
        png = encode_png(ids)
        jpg = encode_jpg(np.full((48, 96, 3), (200, 40, 40), np.uint8))
        for f in range(first, first + frames):
            b.members[f"{f:06d}.ids.png"] = png
            b.members[f"{f:06d}.jpg"] = jpg
            b.set_json(f)
        b.blocks = [
            json.dumps({"block": k, "actions": [k % 256, 1, 2], "prompt": f"p{k // 8}"}).encode()
            for k in range(first // 4, (first + frames) // 4)
        ]
        b.run_json = {
            "run": run, "family": "v10", "fps": 30, "scene": {"id": 1, "name": "valley"},
            "clip_starts": [first] if clip_starts is None else clip_starts, "image_size": list(SIZE),
        }  # fmt: skip
        return b

    return make


@pytest.fixture
def settings_for(tmp_path: Path) -> Callable[..., Settings]:
    """Settings over `tmp_path/src` and `tmp_path/out` at the tiny size."""

    def make(**change: Any) -> Settings:
        (tmp_path / "src").mkdir(exist_ok=True)
        return Settings.resolve(
            **{
                "src": tmp_path / "src",
                "out": tmp_path / "out",
                "size": "64x32",
                "cpu_threads": 1,
                "workers": 1,
                **change,
            }
        )

    return make
