"""The json of a recording, checked field by field (DESIGN: source; field names are assumed).

Unknown fields are ignored; missing ones, wrong types, non-finite and absurd numbers are errors that name the field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from gc25d_core.camera import Camera
from gc25d_core.capsules import Capsules

MAX_CM = 1e7
"""Largest coordinate accepted (assumed): 100 km from the origin, where float32 still resolves a centimetre."""

Number = Annotated[float, Meta(ge=-1e12, le=1e12)]
Coordinate = Annotated[float, Meta(ge=-MAX_CM, le=MAX_CM)]
Length = Annotated[float, Meta(gt=0, le=MAX_CM)]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Text = Annotated[str, Meta(min_length=1, max_length=256)]
Byte = Annotated[int, Meta(ge=0, le=255)]
Point = tuple[Coordinate, Coordinate, Coordinate]
Row4 = tuple[Number, Number, Number, Number]


class _Scene(Struct, frozen=True):
    id: Annotated[int, Meta(ge=0, le=99999)]
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}\Z")]


class RunJson(Struct, frozen=True):
    """`run.json` as it lies on disk. Clip starts are checked clip by clip, later."""

    run: str
    family: Literal["v10", "v9"]
    fps: Annotated[float, Meta(gt=0, le=1000)]
    scene: _Scene
    clip_starts: list[int]
    image_size: tuple[Annotated[int, Meta(ge=1, le=65535)], Annotated[int, Meta(ge=1, le=65535)]]


class BlockJson(Struct, frozen=True):
    """One line of `blocks.jsonl`."""

    block: Index
    actions: Annotated[list[Byte], Meta(min_length=1, max_length=4096)]
    prompt: Annotated[str, Meta(max_length=65536)]


class _Look(Struct, frozen=True):
    biome: Text
    lighting: Text


class _Camera(Struct, frozen=True):
    fx: Annotated[float, Meta(gt=0, le=1e6)]
    fy: Annotated[float, Meta(gt=0, le=1e6)]
    cx: Annotated[float, Meta(ge=-1e6, le=1e6)]
    cy: Annotated[float, Meta(ge=-1e6, le=1e6)]
    world_to_camera: tuple[Row4, Row4, Row4, Row4]


class _Capsule(Struct, frozen=True):
    owner: Literal["player", "boss"]
    part: Literal["head", "torso", "arms", "legs", "weapon"]
    a: Point
    b: Point
    radius: Length


class FrameJson(Struct, frozen=True):
    """`{frame:06d}.json` as it lies in the tar."""

    frame: Index
    episode: Annotated[int, Meta(ge=-(2**53), le=2**53)]
    camera_variant: Text
    look: _Look
    mirrored_world: bool
    bot_mode: Annotated[str, Meta(max_length=256)]
    dead: bool
    camera: _Camera
    capsules: list[_Capsule]


run_decoder = msgspec.json.Decoder(RunJson)
block_decoder = msgspec.json.Decoder(BlockJson)
frame_decoder = msgspec.json.Decoder(FrameJson)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What `run.json` says of a run."""

    run: str
    family: str
    fps: float
    scene_id: int
    scene_name: str
    clip_starts: tuple[int, ...]
    image_size: tuple[int, int]
    """(width, height) of every frame."""


@dataclass(frozen=True, slots=True)
class Block:
    """Actions and prompt of one block of four frames."""

    block: int
    actions: bytes
    """uint8 [A]."""
    prompt: str


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """What a frame's json says."""

    frame: int
    episode: int
    camera_variant: str
    look: str
    """`biome/lighting`."""
    mirrored_world: bool
    bot_mode: str
    dead: bool
    camera: Camera
    capsules: Capsules


def parse_frame(data: bytes) -> FrameRecord:
    """One frame's json.

    Raises:
        ValueError: malformed json, a field missing or of the wrong type (`msgspec.ValidationError` names its path), a
            non-finite number, or a camera whose matrix is no rigid or affine transform.
    """
    j = frame_decoder.decode(data)
    c = j.camera
    camera = Camera(c.fx, c.fy, c.cx, c.cy, np.array(c.world_to_camera, np.float64))
    capsules = Capsules.from_records([(k.owner, k.part, k.a, k.b, k.radius) for k in j.capsules])
    return FrameRecord(
        j.frame, j.episode, j.camera_variant, f"{j.look.biome}/{j.look.lighting}", j.mirrored_world, j.bot_mode,
        j.dead, camera, capsules,
    )  # fmt: skip
