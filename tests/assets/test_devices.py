"""Masks compose; MIG instances stand in place of the GPU they divide."""

from __future__ import annotations

import pytest

from gc25d_assets.devices import Device, apply_mask, existing_devices, parse_listing, visible_devices
from gc25d_core.errors import SystemFault

MIG_LISTING = """\
GPU 0: NVIDIA H200 (UUID: GPU-aaaa1111-0000-0000-0000-000000000000)
  MIG 3g.71gb     Device  0: (UUID: MIG-1111aaaa-0000-0000-0000-000000000000)
  MIG 1g.18gb     Device  1: (UUID: MIG-2222bbbb-0000-0000-0000-000000000000)
GPU 1: NVIDIA H200 (UUID: GPU-bbbb2222-0000-0000-0000-000000000000)
"""
THREE = [Device(f"GPU-{x * 4}{n}", "NVIDIA H200", 0.0, n - 1) for n, x in enumerate("abc", 1)]


def uuids(devices: list[Device]) -> list[str]:
    return [d.uuid[:8] for d in devices]


def test_without_a_mask_every_device_is_visible() -> None:
    assert uuids(apply_mask(THREE, None)) == ["GPU-aaaa", "GPU-bbbb", "GPU-cccc"]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("2,0", ["GPU-cccc", "GPU-aaaa"]),
        ("GPU-bbbb2", ["GPU-bbbb"]),
        ("GPU-bbbb", ["GPU-bbbb"]),
        ("1, GPU-aaaa", ["GPU-bbbb", "GPU-aaaa"]),
        ("1,-1,0", ["GPU-bbbb"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_a_mask_is_read_as_cuda_reads_it(mask: str, expected: list[str]) -> None:
    assert uuids(apply_mask(THREE, mask)) == expected


@pytest.mark.parametrize("mask", ["3", "GPU-dddd", "0,0", "0,GPU-aaaa", "GPU-"])
def test_a_mask_that_cuda_would_silently_cut_is_an_error(mask: str) -> None:
    with pytest.raises(SystemFault, match="CUDA_VISIBLE_DEVICES"):
        apply_mask(THREE, mask)


def test_mig_instances_stand_in_place_of_their_gpu() -> None:
    devices = parse_listing(MIG_LISTING, {"GPU-bbbb2222-0000-0000-0000-000000000000": 139.8})
    assert uuids(devices) == ["MIG-1111", "MIG-2222", "GPU-bbbb"]
    assert [d.memory_gib for d in devices] == [71.0, 18.0, 139.8]
    assert uuids(apply_mask(devices, "MIG-2222bbbb-0000-0000-0000-000000000000")) == ["MIG-2222"]
    assert uuids(apply_mask(devices, "1")) == ["GPU-bbbb"], "an index counts GPUs, not instances"


def test_the_listing_comes_from_nvidia_smi_and_passes_through_the_mask(
    gpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [(d.index, d.memory_gib) for d in existing_devices()] == [(0, 140.0), (1, 140.0), (2, 20.0)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert [d.uuid for d in visible_devices()] == [gpus[2]]
