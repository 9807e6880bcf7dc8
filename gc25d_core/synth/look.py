"""Looks: a biome (palette, what grows, whether there is water) and a lighting (sun, ambient, fog, sky)."""

from __future__ import annotations

from dataclasses import dataclass

Rgb = tuple[float, float, float]


@dataclass(frozen=True)
class Biome:
    """Colours are sRGB in 0..1, counts are objects in the whole scene."""

    name: str
    ground: Rgb
    ground_patch: Rgb
    foliage: Rgb
    rock: Rgb
    water: Rgb
    trees: int
    bushes: int
    rocks: int
    conifers: bool
    wet: bool


@dataclass(frozen=True)
class Lighting:
    """Sun elevation in degrees, fog length in cm (distance at which 63 % of the colour is fog)."""

    name: str
    sun: Rgb
    ambient: Rgb
    sky_top: Rgb
    sky_horizon: Rgb
    elevation: float
    fog_length: float


@dataclass(frozen=True)
class Look:
    """One look; `name` is `biome/lighting`."""

    biome: Biome
    lighting: Lighting

    @property
    def name(self) -> str:
        return f"{self.biome.name}/{self.lighting.name}"

    def as_json(self) -> dict[str, str]:
        """The `look` object of a frame's json."""
        return {"biome": self.biome.name, "lighting": self.lighting.name}


BIOMES = {
    biome.name: biome
    for biome in (
        Biome(
            "forest",
            (0.33, 0.43, 0.22),
            (0.40, 0.36, 0.22),
            (0.20, 0.42, 0.19),
            (0.47, 0.46, 0.44),
            (0.20, 0.38, 0.45),
            95,
            55,
            18,
            True,
            True,
        ),
        Biome(
            "desert",
            (0.76, 0.62, 0.42),
            (0.69, 0.51, 0.33),
            (0.48, 0.54, 0.29),
            (0.63, 0.43, 0.30),
            (0.25, 0.45, 0.50),
            10,
            22,
            70,
            False,
            False,
        ),
        Biome(
            "tundra",
            (0.72, 0.75, 0.79),
            (0.56, 0.59, 0.61),
            (0.37, 0.47, 0.43),
            (0.43, 0.45, 0.50),
            (0.42, 0.58, 0.68),
            38,
            14,
            48,
            True,
            True,
        ),
        Biome(
            "swamp",
            (0.31, 0.35, 0.22),
            (0.25, 0.24, 0.17),
            (0.31, 0.38, 0.20),
            (0.35, 0.36, 0.31),
            (0.24, 0.32, 0.24),
            60,
            85,
            10,
            False,
            True,
        ),
        Biome(
            "ashland",
            (0.30, 0.27, 0.27),
            (0.40, 0.25, 0.20),
            (0.38, 0.31, 0.25),
            (0.24, 0.22, 0.24),
            (0.45, 0.22, 0.12),
            16,
            10,
            85,
            True,
            False,
        ),
        Biome(
            "autumn",
            (0.58, 0.44, 0.24),
            (0.50, 0.36, 0.20),
            (0.76, 0.38, 0.16),
            (0.50, 0.47, 0.43),
            (0.27, 0.42, 0.50),
            70,
            45,
            22,
            False,
            True,
        ),
        Biome(
            "golden",
            (0.78, 0.66, 0.34),
            (0.67, 0.58, 0.28),
            (0.56, 0.58, 0.24),
            (0.57, 0.53, 0.46),
            (0.32, 0.50, 0.58),
            32,
            75,
            26,
            False,
            True,
        ),
    )
}

LIGHTINGS = {
    light.name: light
    for light in (
        Lighting("noon", (0.72, 0.69, 0.62), (0.46, 0.48, 0.53), (0.30, 0.52, 0.82), (0.70, 0.81, 0.90), 58.0, 22000.0),
        Lighting("dusk", (0.78, 0.50, 0.32), (0.46, 0.41, 0.46), (0.30, 0.29, 0.47), (0.87, 0.58, 0.39), 20.0, 14000.0),
        Lighting("dawn", (0.62, 0.52, 0.45), (0.41, 0.42, 0.48), (0.45, 0.55, 0.73), (0.91, 0.76, 0.66), 26.0, 11000.0),
        Lighting(
            "overcast", (0.28, 0.29, 0.30), (0.58, 0.60, 0.62), (0.58, 0.62, 0.66), (0.74, 0.76, 0.78), 70.0, 9000.0
        ),
        Lighting(
            "night", (0.26, 0.32, 0.46), (0.33, 0.36, 0.46), (0.07, 0.09, 0.18), (0.20, 0.24, 0.36), 40.0, 12000.0
        ),
    )
}

V10_BIOMES = ("forest", "desert", "tundra", "swamp", "ashland")
V10_LIGHTINGS = ("noon", "dusk", "dawn", "overcast", "night")


def look_named(biome: str, lighting: str) -> Look:
    """The look of a biome and a lighting by name; KeyError names an unknown one."""
    return Look(BIOMES[biome], LIGHTINGS[lighting])
