"""What a synthetic source holds, decided before a pixel is drawn: runs, clips and the special cases among them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from gc25d_core.frames import CLIP_FRAMES, EXT_FRAMES
from gc25d_core.synth.look import V10_BIOMES, V10_LIGHTINGS, Look, look_named
from gc25d_core.synth.motion import CAMERA_VARIANTS
from gc25d_core.synth.run_names import default_run_names, family_of
from gc25d_core.synth.terrain import SCENES

FULL = CLIP_FRAMES + EXT_FRAMES
ACTIONS = 8

#: What may be special about a clip, and how often it is where the table below does not say.
SPECIALS = {
    "episode_cut": 0.04,  # the episode changes within the extension: no extension
    "no_last_block": 0.03,  # block s//4 + 26 is missing: no extension
    "gap_block": 0.02,  # block s//4 + 23 is missing, the last one is there: no extension
    "camera_cut": 0.02,  # the camera variant changes within the extension: no extension
    "ends_early": 0.02,  # the recording stops before frame s + 108: no extension
    "buried": 0.03,  # the player sinks into the ground early on and stays there
    "dead": 0.08,  # the player lies dead for 28 frames
}
_LOOK_CHANGE_SHARE = 0.9

#: Specials of the first clips by (run, clip), so that a small source shows each kind that matters.
_FIRST_CLIPS: dict[tuple[int, int], frozenset[str]] = {
    (0, 0): frozenset({"look_change"}),
    (0, 1): frozenset({"look_change", "dead"}),
    (1, 0): frozenset(),
    (1, 1): frozenset({"look_change", "no_last_block"}),
    (2, 0): frozenset(),
    (2, 1): frozenset({"buried"}),
    (3, 0): frozenset({"episode_cut"}),
    (3, 1): frozenset(),
}
_SCENE_OF_FIRST = (1, 0, 0, 1)  # indices into SCENES; the first run's scene sorts last on purpose
_SEVEN_DIGIT_RUN = 3
_SEVEN_DIGIT_START = 999_936
_BOT_MODES = {"v10": ("duel", "explore", "kite"), "v9": ("scripted", "wander")}
_DOING = ("walks around the boss", "raises the sword", "keeps its distance", "looks for an opening", "circles slowly")


@dataclass(frozen=True)
class FrameState:
    """What is the case at one frame. `fallen` 0..1, `sunk` in cm, `motion_frame` differs from `frame` while dead."""

    frame: int
    motion_frame: int
    episode: int
    camera_variant: str
    look: Look
    bot_mode: str
    dead: bool
    fallen: float
    sunk: float
    boss_present: bool


@dataclass(frozen=True)
class ClipPlan:
    """One clip: frames start .. start + n_frames - 1 exist; `ext_look` holds from frame start + 81 on."""

    start: int
    specials: frozenset[str]
    look: Look
    ext_look: Look
    camera_variant: str
    cut_camera_variant: str
    episode: int
    bot_modes: tuple[str, str]
    cut: int
    boss_present: bool = True

    @property
    def n_frames(self) -> int:
        """81 frames and the extension's 28, fewer where the recording ends early."""
        return CLIP_FRAMES + self.cut if "ends_early" in self.specials else FULL

    @property
    def frames(self) -> range:
        """Absolute frame numbers."""
        return range(self.start, self.start + self.n_frames)

    @property
    def blocks(self) -> list[int]:
        """Absolute numbers of the blocks that have a line, in order."""
        missing = {"no_last_block": 26, "gap_block": 23}
        first = self.start // 4
        gone = {first + missing[special] for special in self.specials & missing.keys()}
        return [b for b in range(first, (self.start + self.n_frames - 1) // 4 + 1) if b not in gone]

    def state(self, frame: int) -> FrameState:
        """The state at an absolute frame of this clip."""
        offset = frame - self.start
        after_cut = offset >= CLIP_FRAMES + self.cut
        dead = "dead" in self.specials and 30 <= offset < 58
        return FrameState(
            frame=frame,
            motion_frame=self.start + 30 if dead else frame,
            episode=self.episode + (1 if "episode_cut" in self.specials and after_cut else 0),
            camera_variant=self.cut_camera_variant
            if "camera_cut" in self.specials and after_cut
            else self.camera_variant,
            look=self.look if offset < CLIP_FRAMES else self.ext_look,
            bot_mode=self.bot_modes[0] if offset < 48 else self.bot_modes[1],
            dead=dead,
            fallen=min(1.0, (offset - 29) / 8) if dead else 0.0,
            sunk=float(np.clip(30.0 * (offset - 6), 0.0, 420.0)) if "buried" in self.specials else 0.0,
            boss_present=self.boss_present,
        )


@dataclass(frozen=True)
class RunPlan:
    """One run. `size` is (W, H) in px, `scene` (id, name); `shuffled` frames lie in random order over the shards."""

    run: str
    family: str
    seed: int
    size: tuple[int, int]
    fps: int
    scene: tuple[int, str]
    mirrored_world: bool
    clips: tuple[ClipPlan, ...]
    shuffled_frames: bool = False
    shuffled_blocks: bool = False

    def rng(self, *purpose: str) -> np.random.Generator:
        """A generator of its own for each purpose, from the seed and the run's name."""
        words = [zlib.crc32(word.encode()) for word in (self.run, *purpose)]
        return np.random.default_rng([self.seed, *words])

    def run_json(self) -> dict[str, object]:
        """The content of `run.json`."""
        scene = {"id": self.scene[0], "name": self.scene[1]}
        starts = [clip.start for clip in self.clips]
        return {"run": self.run, "family": self.family, "fps": self.fps, "scene": scene, "clip_starts": starts,
                "image_size": list(self.size)}  # fmt: skip

    def block_rows(self) -> list[dict[str, object]]:
        """The lines of `blocks.jsonl`: a held action for some blocks, a prompt that follows it and the look."""
        rng = self.rng("blocks")
        rows: list[dict[str, object]] = []
        actions, doing, hold = [0] * ACTIONS, _DOING[0], 0
        for clip in self.clips:
            for block in clip.blocks:
                if hold == 0:
                    hold = int(rng.integers(3, 11))
                    doing = _DOING[int(rng.integers(len(_DOING)))]
                    keys = rng.integers(0, 2, ACTIONS - 2).tolist()
                    actions = [*keys, *rng.integers(96, 160, 2).tolist()]
                hold -= 1
                # A block drives the cell that begins at its second frame, so the prompt speaks of that frame's look.
                look = clip.state(min(4 * block + 1, clip.frames[-1])).look
                prompt = f"The hero {doing}; {look.biome.name} at {look.lighting.name}."
                rows.append({"block": block, "actions": list(actions), "prompt": prompt})
        if self.shuffled_blocks:
            rows = [rows[i] for i in rng.permutation(len(rows))]
        return rows


def _pick(rng: np.random.Generator, choices: tuple[str, ...], *, but: str | None = None) -> str:
    left = [choice for choice in choices if choice != but]
    return left[int(rng.integers(len(left)))]


def _looks(run: str, rng: np.random.Generator, *, change: bool) -> tuple[Look, Look]:
    if family_of(run) == "v9":
        look = look_named("autumn", "overcast") if "autumn" in run else look_named("golden", "noon")
        return look, look
    biome, lighting = _pick(rng, V10_BIOMES), _pick(rng, V10_LIGHTINGS)
    look = look_named(biome, lighting)
    if not change:
        return look, look
    return look, look_named(_pick(rng, V10_BIOMES, but=biome), _pick(rng, V10_LIGHTINGS, but=lighting))


def _specials(index: int, clip: int, family: str, rng: np.random.Generator) -> frozenset[str]:
    drawn = {name for name, share in SPECIALS.items() if rng.uniform() < share}
    if family == "v10" and rng.uniform() < _LOOK_CHANGE_SHARE:
        drawn.add("look_change")
    return _FIRST_CLIPS.get((index, clip), frozenset(drawn))


def plan_run(run: str, *, index: int, clips: int, size: tuple[int, int], seed: int) -> RunPlan:
    """The plan of the source's run number `index`. Clips lie in order, 112 frames or more apart."""
    family = family_of(run)
    rng = np.random.default_rng([seed, zlib.crc32(run.encode()), zlib.crc32(b"plan")])
    variants = tuple(CAMERA_VARIANTS)
    plans: list[ClipPlan] = []
    start, episode = 4 * int(rng.integers(0, 40)), int(rng.integers(1, 9))
    for clip in range(clips):
        specials = _specials(index, clip, family, rng)
        look, ext_look = _looks(run, rng, change="look_change" in specials)
        variant = _pick(rng, variants)
        modes = _BOT_MODES[family]
        plans.append(
            ClipPlan(
                start=start,
                specials=specials,
                look=look,
                ext_look=ext_look,
                camera_variant=variant,
                cut_camera_variant=_pick(rng, variants, but=variant),
                episode=episode,
                bot_modes=(_pick(rng, modes), _pick(rng, modes)),
                cut=int(rng.integers(4, EXT_FRAMES)),
                boss_present=index < len(_SCENE_OF_FIRST) or bool(rng.uniform() > 0.05),
            )
        )
        episode += int(rng.integers(0, 2)) + ("episode_cut" in specials)
        start += 112 + 4 * int(rng.integers(0, 30))
    if index == _SEVEN_DIGIT_RUN:
        shift = _SEVEN_DIGIT_START - plans[min(1, clips - 1)].start
        plans = [ClipPlan(**{**vars(plan), "start": plan.start + shift}) for plan in plans]
    scene = _SCENE_OF_FIRST[index] if index < len(_SCENE_OF_FIRST) else index % len(SCENES)
    return RunPlan(
        run=run,
        family=family,
        seed=seed,
        size=size,
        fps=24,
        scene=SCENES[scene],
        mirrored_world=index % 3 == 1,
        clips=tuple(plans),
        shuffled_frames=index % 4 == 2,
        shuffled_blocks=index % 4 == 1,
    )


def plan_source(*, runs: int, clips: int, size: tuple[int, int], seed: int) -> list[RunPlan]:
    """Plans of the first `runs` default runs with `clips` clips each."""
    names = default_run_names(runs)
    return [plan_run(run, index=i, clips=clips, size=size, seed=seed) for i, run in enumerate(names)]
