"""Triton kernels without a GPU: interpreted on the CPU for their values, compiled for Hopper for their syntax."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton")


def test_interpreted_kernels_agree_with_plain_torch() -> None:
    root = Path(__file__).parents[2]
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(root)}
    script = Path(__file__).with_name("interpreted_kernels.py")
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True)
    assert done.returncode == 0 and "all kernels agree" in done.stdout, done.stderr[-2000:]


@pytest.mark.parametrize("channels", [160, 16])
def test_kernels_compile_for_the_gpu(channels: int) -> None:
    """The interpreter accepts what the compiler does not, so both are asked."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from gc25d_core.vae import kernels

    c0, c1, rows, _ = kernels._parts(channels)
    half, wide = "*fp16", "*fp32"
    jobs = [
        (
            kernels._add_norm_silu,
            {"y_ptr": half, "bias_ptr": wide, "res_ptr": half, "gamma_ptr": wide, "sum_ptr": half, "out_ptr": half, "rows": "i32", "scale": "fp32"},
            {"C": channels, "C0": c0, "C1": c1, "BLOCK_R": rows, "HAS_BIAS": True, "HAS_RES": True, "SUM": True, "NORM": True},
        ),
        (
            kernels._avg_down,
            {"x_ptr": half, "out_ptr": half} | dict.fromkeys(["rows", "t_pad", "H_out", "W_out", "H_in", "W_in"], "i32"),
            {"C": channels, "C0": c0, "C1": c1, "GROUP": 4, "PER_CHANNEL": 2, "FT": 2, "FS": 2, "BLOCK_R": rows},
        ),
        (kernels._patches, {"frames_ptr": "*u8", "table_ptr": half, "out_ptr": half, "rows": "i32", "H": "i32", "W": "i32"}, {"BLOCK_R": 256}),
    ]  # fmt: skip
    for kernel, types, constants in jobs:
        signature = {n: "constexpr" if n in constants else types[n] for n in kernel.arg_names}
        compiled = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 90, 32))
        assert ".target sm_90" in compiled.asm["ptx"]


def test_channel_counts_that_kernels_cannot_tile_are_named() -> None:
    from gc25d_core.vae import kernels

    with pytest.raises(ValueError, match="21 channels"):
        kernels._parts(21)
