"""When bits may be asked for."""

from __future__ import annotations

import pytest

from gc25d_core.vae import same_rule
from gc25d_core.vae.provenance import BIT_KEYS, STORED_REL_L2

HERE = dict.fromkeys(BIT_KEYS, "x") | {"precision_used": "exact"}


def test_equal_provenance_asks_for_bits() -> None:
    assert same_rule(HERE, dict(HERE)).bits


@pytest.mark.parametrize("key", [k for k in BIT_KEYS if k != "precision_used"])
def test_any_difference_asks_for_the_tolerance_and_is_named(key: str) -> None:
    rule = same_rule(HERE | {key: "other"}, HERE)
    assert not rule.bits and rule.rel_l2 == STORED_REL_L2 and key in rule.why


def test_fast_latents_are_never_asked_for_bits() -> None:
    fast = HERE | {"precision_used": "fast"}
    assert not same_rule(fast, fast).bits and not same_rule(fast, HERE).bits
