"""Under what a latent was made, and whether two of those may be asked for equal bits. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BIT_KEYS = (
    "vae_hash",
    "precision_used",
    "device_name",
    "torch",
    "cudnn",
    "diffsynth",
    "cudnn_allow_tf32",
    "matmul_allow_tf32",
    "cudnn_benchmark",
    "cpu_threads",
    "cpu_capability",
    "cpu_name",
)
"""Everything that may change the low bits of a latent. All equal means: the same bits may be asked for."""

STORED_REL_L2 = 2.5e-3
"""Largest relative L2 between a stored bf16 latent and an unrounded exact one (rounding alone costs 1.7e-3)."""

ENCODER_REL_L2 = 2e-3
"""Largest relative L2 between the unrounded outputs of two ways to encode."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a re-encoded clip is compared with the stored one."""

    bits: bool
    """True: the largest difference must be 0. False: relative L2 must be at most `rel_l2`."""
    rel_l2: float
    why: str
    """A sentence for the report: which rule and for what reason."""


def same_rule(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Rule:
    """The rule to compare a stored latent (its provenance) with one that is encoded now (`Encoder.provenance()`).

    Bits are asked for only between two `exact` encodings under the same device, versions, flags and threads: a `fast`
    encoding may pick other convolution algorithms in every process.
    """
    if stored.get("precision_used") != "exact" or now.get("precision_used") != "exact":
        used = f"{stored.get('precision_used')} against {now.get('precision_used')}"
        return Rule(
            bits=False, rel_l2=STORED_REL_L2, why=f"tolerance: bits hold only for exact against exact, here {used}"
        )
    differing = [k for k in BIT_KEYS if stored.get(k) != now.get(k)]
    if differing:
        said = ", ".join(f"{k} {stored.get(k)!r} against {now.get(k)!r}" for k in differing)
        return Rule(bits=False, rel_l2=STORED_REL_L2, why=f"tolerance: made elsewhere ({said})")
    return Rule(bits=True, rel_l2=0.0, why="equal bits: same device, versions, flags and threads")
