"""One frame of a run as picture, ids and json; and `iter_frames`, an endless recording in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gc25d_core.synth.layout import StaticScene, make_static_scene
from gc25d_core.synth.look import Look
from gc25d_core.synth.mesh import CAPSULE_TRIANGLES, capsule_vertices
from gc25d_core.synth.motion import Camera, make_motion
from gc25d_core.synth.plan import FrameState, RunPlan, plan_run
from gc25d_core.synth.raster import clear_buffers, rasterise
from gc25d_core.synth.shading import dress, shade
from gc25d_core.synth.skeleton import Capsules, pose_capsules
from gc25d_core.synth.terrain import make_terrain


@dataclass(frozen=True)
class SynthFrame:
    """`rgb` uint8 [H, W, 3], `ids` uint8 [H, W] raw ids (0..6, 10, 11), `json` the frame's json object."""

    rgb: NDArray[np.uint8]
    ids: NDArray[np.uint8]
    json: dict[str, Any]


class Stage:
    """A run's world, built once: terrain, motion and, for each biome that was asked for, the still scene."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        rng = plan.rng("stage")
        self.motion = make_motion(plan.family, rng)
        self.terrain = make_terrain(plan.scene[1], rng)
        self.tint = rng.uniform(0.82, 1.15, 3)
        self.sun_azimuth = float(rng.uniform(0, 2 * np.pi))
        self._scenes: dict[str, StaticScene] = {}

    def scene(self, look: Look) -> StaticScene:
        """The still scene of a look's biome; the lighting does not move anything."""
        biome = look.biome.name
        if biome not in self._scenes:
            self._scenes[biome] = make_static_scene(
                self.terrain,
                look,
                ring=self.motion.ring,
                occluders=self.plan.family == "v9",
                rng=self.plan.rng("layout", biome),
            )
        return self._scenes[biome]

    def characters(self, state: FrameState) -> list[Capsules]:
        """The player's capsules, then the boss's."""
        player = replace(self.motion.player(state.motion_frame), fallen=state.fallen, sunk=state.sunk)
        found = [pose_capsules("player", player, self.terrain)]
        if state.boss_present:
            found.append(pose_capsules("boss", self.motion.boss(state.frame), self.terrain))
        return found

    def camera(self, state: FrameState) -> Camera:
        """The camera; it rests while the player lies dead."""
        return self.motion.camera(
            state.motion_frame, variant=state.camera_variant, size=self.plan.size, terrain=self.terrain
        )

    def render(self, state: FrameState) -> SynthFrame:
        """Draws a frame at full size."""
        camera, characters, scene = self.camera(state), self.characters(state), self.scene(state.look)
        width, height = self.plan.size
        inverse_depth = np.empty((height, width))
        triangle_index = np.empty((height, width), np.int32)
        clear_buffers(inverse_depth, triangle_index)
        into = (camera.world_to_camera, camera.intrinsics, inverse_depth, triangle_index)
        rasterise(scene.vertices, scene.triangles, 0, *into)
        first = len(scene.triangles)
        for character in characters:
            vertices = capsule_vertices(character.a, character.b, character.radius)
            for shell in vertices:
                rasterise(shell, CAPSULE_TRIANGLES, first, *into)
                first += len(CAPSULE_TRIANGLES)
        rgb, ids = shade(
            (triangle_index, inverse_depth),
            camera=camera,
            scene=scene,
            characters=characters,
            shadows=self._shadows(characters),
            palette=dress(characters, self.tint),
            look=state.look,
            sun_azimuth=self.sun_azimuth,
            textured=self.plan.family == "v10",
        )
        return SynthFrame(_softened(rgb), ids, self.frame_json(state, camera, characters))

    def _shadows(self, characters: list[Capsules]) -> NDArray[np.float64]:
        """A dark spot under each character that is not below the ground: x, y and size in cm, float64 [S, 3]."""
        spots = []
        for character in characters:
            x, y, top = character.a.mean(axis=0)[0], character.a.mean(axis=0)[1], character.a[:, 2].max()
            if top > self.terrain.at(x, y):
                spots.append([x, y, 2.2 * character.radius.max()])
        return np.array(spots, np.float64).reshape(-1, 3)

    def frame_json(self, state: FrameState, camera: Camera, characters: list[Capsules]) -> dict[str, Any]:
        """The json object of a frame."""
        return {
            "frame": state.frame,
            "episode": state.episode,
            "camera_variant": state.camera_variant,
            "look": state.look.as_json(),
            "mirrored_world": self.plan.mirrored_world,
            "bot_mode": state.bot_mode,
            "dead": state.dead,
            "camera": camera.as_json(),
            "capsules": [row for character in characters for row in character.as_json()],
        }


def _softened(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The colours a little smoothed, as a game's anti-aliasing does; ids stay hard."""
    import cv2

    return np.asarray(cv2.GaussianBlur(rgb, (3, 3), 0.6), np.uint8)


def iter_frames(family: str, seed: int, size: tuple[int, int], n: int) -> Iterator[SynthFrame]:
    """`n` frames in a row of a recording made from the seed alone, at size (W, H) px.

    A seed changes layout, look, outfit, path, camera and the phase of every motion. Like a clip, a v10 recording may
    change its look at frame 81 and keeps the new look from then on.
    """
    if family not in ("v10", "v9"):
        raise ValueError(f'family must be "v10" or "v9", got {family!r}')
    choice = np.random.default_rng([seed, 77])
    name = "R10" if family == "v10" else ("P9C_autumn", "P9_golden")[int(choice.integers(2))]
    run = plan_run(f"{name}_m{seed}", index=1000 + int(choice.integers(60)), clips=1, size=size, seed=seed)
    clip = replace(run.clips[0], specials=run.clips[0].specials & {"look_change"}, boss_present=True)
    stage = Stage(run)
    for frame in range(clip.start, clip.start + n):
        yield stage.render(clip.state(frame))
