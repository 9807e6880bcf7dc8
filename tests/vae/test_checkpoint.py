"""Loading: what comes out is DiffSynth's class in fp32, and every kind of wrong file says what is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from gc25d_core.vae import DEMO_VAE_PATH, VaeFileError, load_vae
from gc25d_core.vae.checkpoint import build_vae


def test_demo_vae_is_diffsynths_class_in_float32() -> None:
    vae = load_vae(DEMO_VAE_PATH, "cpu")
    assert type(vae).__name__ == "WanVideoVAE38" and type(vae.model).__name__ == "VideoVAE38_"
    assert {p.dtype for p in vae.parameters()} == {torch.float32}
    assert not any(p.is_meta or p.requires_grad for p in vae.parameters())
    assert vae.mean.shape == vae.std.shape == (48,) and not vae.mean.is_meta


def test_weights_are_the_files_fp16_values_exactly() -> None:
    stored = load_file(str(DEMO_VAE_PATH))
    loaded = load_vae(DEMO_VAE_PATH, "cpu").model.state_dict()
    assert all(v.dtype == torch.float16 for v in stored.values())
    assert all(torch.equal(stored[k].float(), loaded[k]) for k in stored) and stored.keys() == loaded.keys()


def test_demo_file_fits_the_package() -> None:
    assert DEMO_VAE_PATH.stat().st_size <= 8_000_000


def test_building_a_narrow_vae_allocates_nothing() -> None:
    assert all(p.is_meta for p in build_vae(16, 16).parameters())


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VaeFileError, match=r"no\.pth does not exist"):
        load_vae(tmp_path / "no.pth", "cpu")


@pytest.mark.parametrize("keep", [0.5, 0.001])
def test_cut_demo_file_is_an_error(tmp_path: Path, keep: float) -> None:
    data = DEMO_VAE_PATH.read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(VaeFileError, match="cut"):
        load_vae(tmp_path / "cut.safetensors", "cpu")


def test_wrong_widths_list_tensors_got_and_expected(tmp_path: Path) -> None:
    with safe_open(str(DEMO_VAE_PATH), framework="pt") as file:
        metadata = dict(file.metadata()) | {"dim": "12"}
    save_file(load_file(str(DEMO_VAE_PATH)), str(tmp_path / "odd.safetensors"), metadata=metadata)
    with pytest.raises(VaeFileError, match=r"do not fit dim=12.*got \(16, 12, 3, 3, 3\), expected \(12, 12, 3, 3, 3\)"):
        load_vae(tmp_path / "odd.safetensors", "cpu")


def test_pth_of_another_model_says_so(tmp_path: Path) -> None:
    torch.save({"decoder.weight": torch.zeros(3)}, tmp_path / "Wan2.2_VAE.pth")
    with pytest.raises(VaeFileError, match=r"cannot be loaded as Wan2\.2_VAE\.pth.*Cannot detect the model type"):
        load_vae(tmp_path / "Wan2.2_VAE.pth", "cpu")


def test_cut_pth_says_so(tmp_path: Path) -> None:
    torch.save({"decoder.weight": torch.zeros(30_000)}, tmp_path / "whole.pth")
    (tmp_path / "cut.pth").write_bytes((tmp_path / "whole.pth").read_bytes()[:50_000])
    with pytest.raises(VaeFileError, match="it is cut, or another model"):
        load_vae(tmp_path / "cut.pth", "cpu")


def test_narrow_weights_as_pth_are_refused_not_half_loaded(tmp_path: Path) -> None:
    torch.save(load_file(str(DEMO_VAE_PATH)), tmp_path / "narrow.pth")
    with pytest.raises(VaeFileError, match="Cannot detect the model type"):
        load_vae(tmp_path / "narrow.pth", "cpu")


def test_the_real_shapes_are_those_diffsynth_knows() -> None:
    from diffsynth.configs import MODEL_CONFIGS
    from diffsynth.core.loader.file import hash_state_dict_keys
    from diffsynth.models.wan_video_vae import VideoVAE38_

    with torch.device("meta"):
        keys = hash_state_dict_keys(VideoVAE38_().state_dict())
    known = [c["model_class"] for c in MODEL_CONFIGS if c["model_hash"] == keys]
    assert known == ["diffsynth.models.wan_video_vae.WanVideoVAE38"]


def test_other_safetensors_file_is_no_demo(tmp_path: Path) -> None:
    shutil.copy(DEMO_VAE_PATH, tmp_path / "a.safetensors")
    save_file(load_file(str(tmp_path / "a.safetensors")), str(tmp_path / "plain.safetensors"))
    with pytest.raises(VaeFileError, match="Cannot detect the model type"):
        load_vae(tmp_path / "plain.safetensors", "cpu")
