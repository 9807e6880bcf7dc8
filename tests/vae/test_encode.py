"""The encoder against DiffSynth's own calls, and what it refuses."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gc25d_core.vae import Encoder, open_encoder
from gc25d_core.vae.pixels import pixel_table, to_video


def encoder_of(vae: Any) -> Encoder:
    return Encoder(vae, "hash", device="cpu", precision="exact", threads=1)


def test_table_has_the_bits_of_diffsynths_preprocessing() -> None:
    from diffsynth.diffusion.base_pipeline import BasePipeline

    frames = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 16, 16, 3)
    pipe = BasePipeline(device="cpu", torch_dtype=torch.float32)
    theirs = pipe.preprocess_video(list(frames), pattern="B C T H W")[0]
    assert torch.equal(to_video(torch.from_numpy(frames), pixel_table()), theirs)


def test_exact_has_diffsynths_bits_and_is_stored_as_bfloat16(narrow_vae: Any, video: Any) -> None:
    frames = video(9)
    x = to_video(torch.from_numpy(frames), pixel_table())
    with torch.inference_mode():
        theirs = narrow_vae.encode([x], device="cpu", tiled=False)[0]
    encoder = encoder_of(narrow_vae)
    clip = encoder.encode(frames)
    assert torch.equal(encoder.encode_float(frames, "exact"), theirs)
    assert clip.latent.dtype == torch.bfloat16 and clip.latent.shape == (48, 3, 2, 4)
    assert torch.equal(clip.latent, theirs.to(torch.bfloat16)) and clip.precision_used == "exact"


def test_foreign_flags_and_threads_do_not_reach_the_encode(narrow_vae: Any, video: Any) -> None:
    frames, encoder = video(5), encoder_of(narrow_vae)
    first = encoder.encode(frames).latent
    torch.set_num_threads(2)
    torch.backends.cudnn.benchmark = True
    try:
        assert torch.equal(encoder.encode(frames).latent, first) and torch.get_num_threads() == 1
        assert torch.backends.cudnn.benchmark is True
    finally:
        torch.backends.cudnn.benchmark = False


def test_cell_0_is_frame_0_alone(narrow_vae: Any, video: Any) -> None:
    frames, encoder = video(9), encoder_of(narrow_vae)
    assert torch.equal(encoder.encode(frames).latent[:, :1], encoder.encode(frames[:1]).latent)


def test_the_first_cell_from_its_frame_alone_has_the_clips_bits(random_vae: Any, video: Any) -> None:
    """At this size and two threads a one-frame video has other low bits on some CPUs; the first cell must not."""
    encoder = Encoder(random_vae(), "-", device="cpu", precision="exact", threads=2)
    frames = video(21, 160, 96)
    whole = encoder.encode_float(frames, "exact")
    assert torch.equal(encoder.encode_first_cell(frames[:1], whole.shape[1]), whole[:, :1])
    assert not torch.equal(encoder.encode_first_cell(frames[1:2], whole.shape[1]), whole[:, :1])


@pytest.mark.parametrize("frames", [2, 4, 27, 80, 82])
def test_other_frame_counts_are_refused_never_cut(narrow_vae: Any, frames: int, video: Any) -> None:
    with pytest.raises(ValueError, match=rf"T = {frames} .* T % 4 must be 1"):
        encoder_of(narrow_vae).encode(video(frames))


def test_28_frames_are_refused_with_the_reason(narrow_vae: Any, video: Any) -> None:
    with pytest.raises(ValueError, match="encode all 109 frames and take the last 7 cells"):
        encoder_of(narrow_vae).encode(video(28))


def test_why_28_frames_are_refused_diffsynth_gives_7_cells_in_the_wrong_phase(random_vae: Any, video: Any) -> None:
    vae = random_vae()
    x = to_video(torch.from_numpy(video(109)), pixel_table())
    with torch.inference_mode():
        whole = vae.encode([x], device="cpu")[0]
        alone = vae.encode([x[:, 81:]], device="cpu")[0]
    assert whole.shape[1] == 28 and alone.shape[1] == 7  # no shape check would notice
    difference = (whole[:, 21:] - alone).norm() / whole[:, 21:].norm()
    assert float(difference) > 0.05


@pytest.mark.parametrize(
    "frames",
    [np.zeros((5, 32, 64, 4), np.uint8), np.zeros((5, 32, 64, 3), np.float32), np.zeros((5, 24, 64, 3), np.uint8)],
)
def test_wrong_frames_say_shape_and_dtype(narrow_vae: Any, frames: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"\(5, .*expected"):
        encoder_of(narrow_vae).encode(frames)


def test_stream_keeps_keys_and_order_and_counts(narrow_vae: Any, video: Any) -> None:
    encoder = encoder_of(narrow_vae)
    clips = {name: video(5, seed=i) for i, name in enumerate("cab")}
    found = dict(encoder.encode_stream(clips.items()))
    assert list(found) == ["c", "a", "b"]
    assert all(torch.equal(found[k].latent, encoder_of(narrow_vae).encode(v).latent) for k, v in clips.items())
    assert (encoder.counts.clips, encoder.counts.exact, encoder.counts.fallbacks) == (3, 3, 0)


def test_stream_holds_at_most_two_clips(narrow_vae: Any, video: Any) -> None:
    pulled = []

    def clips() -> Any:
        for i in range(5):
            pulled.append(i)
            yield i, video(1)

    for key, _ in encoder_of(narrow_vae).encode_stream(clips()):
        assert len(pulled) <= key + 2


def test_saved_latent_is_no_larger_than_its_values(narrow_vae: Any, video: Any) -> None:
    latent = encoder_of(narrow_vae).encode(video(5)).latent
    file = io.BytesIO()
    torch.save(latent, file)
    assert latent.is_contiguous() and latent.untyped_storage().nbytes() == latent.numel() * 2
    assert len(file.getvalue()) < latent.numel() * 2 + 4096


@pytest.mark.parametrize("failure", ["not finite", "memory", "self-check"])
def test_failed_fast_clip_is_encoded_exactly_and_counted(
    narrow_vae: Any, monkeypatch: pytest.MonkeyPatch, failure: str, video: Any
) -> None:
    exact = encoder_of(narrow_vae).encode(video(5)).latent
    encoder = encoder_of(narrow_vae)
    encoder.precision = "fast"

    class Broken:
        def encode(self, frames: torch.Tensor) -> torch.Tensor:
            if failure == "memory":
                raise torch.OutOfMemoryError("full")
            return torch.full((48, 2, 2, 4), float("nan"))

    monkeypatch.setattr(encoder, "_fast_encoder", lambda frames: Broken())
    monkeypatch.setattr(encoder, "_fast_holds", lambda frames: failure != "self-check")
    clip = encoder.encode(video(5))
    assert clip.precision_used == "exact" and torch.equal(clip.latent, exact)
    assert (encoder.counts.fallbacks, encoder.counts.fast, encoder.counts.exact) == (1, 0, 1)


def test_fast_on_a_cpu_is_refused(narrow_vae: Any) -> None:
    with pytest.raises(ValueError, match="needs a CUDA device"):
        Encoder(narrow_vae, "hash", device="cpu", precision="fast")


def test_provenance_names_what_the_bits_depend_on(tmp_path: Path) -> None:
    encoder = open_encoder("demo", device="cpu", precision="exact", cache_dir=tmp_path, threads=1)
    found = encoder.provenance("exact")
    assert found["vae_hash"] == encoder.vae_hash and len(encoder.vae_hash) == 32
    assert found["torch"] == torch.__version__ and found["cpu_threads"] == 1 and found["precision_used"] == "exact"
