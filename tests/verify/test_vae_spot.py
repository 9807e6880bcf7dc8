"""Latents encoded anew: one changed bit is found where bits may be asked for, the tolerance holds where not."""

from importlib import import_module

import numpy as np
import pytest

from gc25d_core.verify import default_spot_vae, spot_vae
from gc25d_core.verify.spot_vae import clip_frames_two_ways, psnr


@pytest.fixture
def row(dataset, tools):
    return tools.row_of(dataset)


def test_an_untouched_latent_has_the_same_bits_and_names_the_rule(dataset, tools, row, easy_psnr):
    results = {r.name: r for r in spot_vae(dataset, [row])}
    assert tools.found(results.values()) == {}
    assert results.keys() == {"spot_pixels", "spot_reencode", "spot_cell0", "spot_psnr", "spot_psnr_usual"}
    assert results["spot_reencode"].figure["max_difference"] == {row.clip: 0}
    assert "equal bits" in results["spot_reencode"].figure["rule"][row.clip]
    assert results["spot_pixels"].figure["levels"][row.clip] < 0.6


def test_the_lowest_bit_of_one_value_is_found(dataset, tools, row):
    tools.rewrite(dataset, row, "latents", lambda a: a["latent"].__setitem__((7, 9, 0, 1), a["latent"][7, 9, 0, 1] ^ 1))
    assert tools.found(spot_vae(dataset, [row], decode=False)) == {"spot_reencode": {row.clip}}


def test_a_changed_cell_0_is_found_by_both_checks(dataset, tools, row):
    tools.rewrite(dataset, row, "latents", lambda a: a["latent"].__setitem__((7, 0, 0, 1), a["latent"][7, 0, 0, 1] ^ 1))
    assert tools.found(spot_vae(dataset, [row], decode=False)).keys() == {"spot_reencode", "spot_cell0"}


def test_made_elsewhere_the_tolerance_is_asked_and_says_so(dataset, tools, row):
    def little(arrays):
        arrays["latent"][7, 9, 0, 1] ^= 1

    tools.rewrite(dataset, row, "latents", little, device_name="another machine")
    results = spot_vae(dataset, [row], decode=False)
    assert tools.found(results) == {}
    [again] = [r for r in results if r.name == "spot_reencode"]
    assert "another machine" in again.figure["rule"][row.clip] and again.figure["rel_l2"][row.clip] < 2.5e-3

    def more(arrays):
        arrays["latent"][:, 12] ^= 8  # a relative 3 % in one cell of 21

    tools.rewrite(dataset, row, "latents", more)
    assert tools.found(spot_vae(dataset, [row], decode=False)) == {"spot_reencode": {row.clip}}


def test_a_fast_latent_is_compared_by_tolerance(dataset, tools, row):
    tools.rewrite(dataset, row, "latents", tools.no_changes, precision_used="fast")
    results = spot_vae(dataset, [row], decode=False)
    assert tools.found(results) == {}
    assert all("tolerance" in r.figure["rule"][row.clip] for r in results if r.name in ("spot_reencode", "spot_cell0"))


@pytest.mark.parametrize("elsewhere", [{}, {"device_name": "another machine"}])
def test_latents_of_frames_shifted_by_one_are_found(dataset, tools, row, elsewhere):
    """Encoded as the product does, from the frames s+1..s+81."""
    from gc25d_core.verify.spot_vae import _open_encoder

    frames, _ = clip_frames_two_ways(dataset, row)
    shifted = _open_encoder(dataset).encode(np.concatenate([frames[1:], frames[-1:]])).latent

    def shift(arrays):
        import torch

        arrays["latent"] = shifted.view(torch.int16).numpy().view(np.uint16)

    tools.rewrite(dataset, row, "latents", shift, **elsewhere)
    assert tools.found(spot_vae(dataset, [row], decode=False)).keys() == {"spot_reencode", "spot_cell0"}


def test_a_latent_that_is_no_picture_fails_the_psnr(dataset, tools, row, easy_psnr):
    rng = np.random.default_rng(0)

    def noise(arrays):
        values = rng.normal(0, 30, arrays["latent"].shape).astype(np.float32)
        arrays["latent"] = (values.view(np.uint32) >> 16).astype(np.uint16)

    before = {r.name: r for r in spot_vae(dataset, [row])}["spot_psnr"].figure["psnr_db"][row.clip]
    tools.rewrite(dataset, row, "latents", noise)
    after = {r.name: r for r in spot_vae(dataset, [row])}["spot_psnr"].figure["psnr_db"][row.clip]
    assert after < before - 1


def test_psnr_thresholds_fail_and_warn(dataset, tools, row, monkeypatch):
    for db, checks in (
        (17.9, {"spot_psnr", "spot_psnr_usual"}),
        (20.0, {"spot_psnr_usual"}),
        (30.0, set()),
        (41.0, {"spot_psnr_usual"}),
    ):
        monkeypatch.setattr(import_module("gc25d_core.verify.spot_vae"), "psnr", lambda *_, db=db: db)
        monkeypatch.setattr(import_module("gc25d_core.verify.spot_vae"), "_decoded", lambda *_: None)
        results = spot_vae(dataset, [row])
        assert tools.found(results).keys() == checks
        assert {r.name: r.severity for r in results}["spot_psnr_usual"] == "warn"


def test_an_unreadable_latent_is_a_finding_and_others_are_still_checked(dataset, tools, row):
    other = tools.row_of(dataset, ext=False)
    dataset.paths.latents(row.clip).write_bytes(b"no zip")
    results = spot_vae(dataset, [row, other], decode=False)
    assert tools.found(results)["spot_reencode"] == {row.clip}
    assert {r.name: r.clips_checked for r in results}["spot_reencode"] == 2


def test_nothing_to_encode_is_not_applicable(dataset):
    assert all(not r.applicable and r.passed for r in spot_vae(dataset, []))
    assert default_spot_vae(dataset) == 1


def test_psnr_by_hand():
    a = np.full((2, 4, 4, 3), 100.0, np.float32)
    assert psnr(a, a.astype(np.uint8)) == float("inf")
    b = a.astype(np.uint8)
    b[1] += 10  # mse 50
    assert psnr(a, b) == pytest.approx(10 * np.log10(255**2 / 50))
