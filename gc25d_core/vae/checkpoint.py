"""Loads a VAE as DiffSynth's `WanVideoVAE38` in fp32: the real Wan2.2 checkpoint, or a narrow demo one.

The real file goes through `WanVideoPipeline.from_pretrained`, which knows checkpoints of the real size only (by a hash of
their keys and shapes). A demo file is a safetensors file whose metadata names its widths; it is put into the same classes.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from gc25d_core.vae.identity import VaeFileError

log = logging.getLogger(__name__)

DEMO_FORMAT = "gc25d-demo-vae/1"
LATENT_CHANNELS = 48


def load_vae(path: Path, device: str | torch.device) -> Any:
    """The VAE in `path` as a DiffSynth `WanVideoVAE38`: fp32 weights on `device`, eval mode, no gradients.

    Raises:
        VaeFileError: missing, cut, not a VAE of this kind, or of other shapes than its metadata says.
    """
    if not path.is_file():
        raise VaeFileError(f"VAE file {path} does not exist; to do: pass the path of Wan2.2_VAE.pth, or `demo`")
    metadata = _safetensors_metadata(path) if path.suffix == ".safetensors" else None
    if metadata is not None and metadata.get("format") == DEMO_FORMAT:
        vae = _load_demo(path, metadata)
    else:
        vae = _load_real(path, device)
    odd = sorted({str(p.dtype) for p in vae.parameters()} - {"torch.float32"})
    if odd:
        raise VaeFileError(f"VAE file {path}: weights arrived as {odd}, expected torch.float32")
    return vae.to(device).eval().requires_grad_(False)


def build_vae(dim: int, dec_dim: int) -> Any:
    """A `WanVideoVAE38` whose model has these widths, with parameters on the meta device (nothing is allocated).

    The class always makes its wide model first; parameters on the meta device make that free, while the latent `mean` and
    `std`, which are no parameters, stay real.
    """
    from diffsynth.core.vram.initialization import skip_model_initialization
    from diffsynth.models.wan_video_vae import VideoVAE38_, WanVideoVAE38

    with skip_model_initialization():
        vae = WanVideoVAE38(z_dim=LATENT_CHANNELS, dim=dim)
        vae.model = VideoVAE38_(dim=dim, z_dim=LATENT_CHANNELS, dec_dim=dec_dim)
    return vae.eval().requires_grad_(False)


def save_demo(path: Path, model: torch.nn.Module, *, dim: int, dec_dim: int, note: dict[str, Any]) -> None:
    """Writes a `VideoVAE38_` as a demo file: fp16 tensors, widths and a training note in the metadata."""
    tensors = {k: v.detach().to("cpu", torch.float16).contiguous() for k, v in model.state_dict().items()}
    broken = [k for k, v in tensors.items() if not bool(torch.isfinite(v).all())]
    if broken:
        raise VaeFileError(f"{path}: {len(broken)} tensors are not finite in fp16, first {broken[0]}")
    metadata = {
        "format": DEMO_FORMAT,
        "dim": str(dim),
        "dec_dim": str(dec_dim),
        "note": json.dumps(note, sort_keys=True),
    }
    temporary = path.with_name(path.name + ".tmp")
    save_file(tensors, str(temporary), metadata=metadata)
    temporary.chmod(0o644)
    temporary.replace(path)


def _safetensors_metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(str(path), framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as e:
        raise VaeFileError(f"VAE file {path} is cut or no safetensors file ({e}); to do: copy it again") from e


def _load_demo(path: Path, metadata: dict[str, str]) -> Any:
    try:
        dim, dec_dim = int(metadata["dim"]), int(metadata["dec_dim"])
    except (KeyError, ValueError) as e:
        raise VaeFileError(f"VAE file {path}: its metadata lacks the widths `dim` and `dec_dim`: {metadata}") from e
    try:
        weights = {k: v.to(torch.float32) for k, v in load_file(str(path)).items()}
    except (SafetensorError, OSError) as e:
        raise VaeFileError(f"VAE file {path} is cut or damaged ({e}); to do: copy it again") from e
    vae = build_vae(dim, dec_dim)
    expected = {k: tuple(v.shape) for k, v in vae.model.state_dict().items()}
    wrong = [
        f"{k}: got {tuple(weights[k].shape) if k in weights else 'nothing'}, expected {expected.get(k, 'nothing')}"
        for k in sorted(expected.keys() | weights.keys())
        if k not in weights or k not in expected or tuple(weights[k].shape) != expected[k]
    ]
    if wrong:
        shown = "; ".join(wrong[:4])
        raise VaeFileError(f"VAE file {path}: {len(wrong)} tensors do not fit dim={dim}, dec_dim={dec_dim}: {shown}")
    vae.model.load_state_dict(weights, assign=True)
    return vae


def _load_real(path: Path, device: str | torch.device) -> Any:
    from diffsynth.pipelines.wan_video import ModelConfig, WanVideoPipeline

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            # The defaults of torch_dtype (bf16, which rounds the weights for good) and tokenizer_config (which downloads)
            # are both wrong for this purpose.
            pipe = WanVideoPipeline.from_pretrained(
                torch_dtype=torch.float32,
                device=device,
                model_configs=[ModelConfig(path=str(path))],
                tokenizer_config=None,
                redirect_common_files=False,
            )
    except Exception as e:  # unpickling and key hashing fail in many ways; all mean the same to the user
        raise VaeFileError(
            f"VAE file {path} ({path.stat().st_size} bytes) cannot be loaded as Wan2.2_VAE.pth: {type(e).__name__}: {e}; "
            "it is cut, or another model; to do: compare its size and hash with the published file's"
        ) from e
    log.debug("%s", said.getvalue())
    vae = pipe.vae
    if type(vae).__name__ != "WanVideoVAE38":
        raise VaeFileError(
            f"VAE file {path} holds {type(vae).__name__}, expected WanVideoVAE38 (48 channels, 16x16x4); "
            "to do: pass Wan2.2_VAE.pth, not the VAE of Wan2.1 or another model"
        )
    return vae
