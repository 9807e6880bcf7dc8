"""A seat is one process's, fixes its device, and is free again the moment the process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from gc25d_assets.seats import count_seats, seats_folder, take_seat
from gc25d_core.errors import SystemFault
from gc25d_core.settings import Settings

HOLD = """
import os, sys, time
from gc25d_assets.seats import take_seat
from gc25d_core.settings import Settings
settings = Settings.resolve(src=sys.argv[1], out=sys.argv[2], device=sys.argv[3], seats=1, size=(64, 32))
with take_seat(settings) as seat:
    print("seated", seat.device.uuid if seat.device else "cpu", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
    if len(sys.argv) > 4:
        pid = os.fork()  # a child that inherits the descriptor
        if pid == 0:
            time.sleep(60)
    time.sleep(60)
"""


def settings(tmp_path: Path, **more: object) -> Settings:
    return Settings.resolve(**{"src": tmp_path, "out": tmp_path / "out", "size": (64, 32), **more})  # type: ignore[arg-type]


def holder(tmp_path: Path, device: str = "cpu") -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), str(tmp_path / "out"), device], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("seated")
    return child


def test_two_processes_never_share_a_seat_and_a_kill_frees_it(tmp_path: Path) -> None:
    child = holder(tmp_path)
    try:
        waiting = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path), str(tmp_path / "out"), "cpu"], stdout=subprocess.PIPE, text=True
        )
        time.sleep(1.5)
        assert waiting.stdout is not None
        os.set_blocking(waiting.stdout.fileno(), False)
        assert not waiting.stdout.readline(), "the second process got a taken seat"
        os.set_blocking(waiting.stdout.fileno(), True)
        child.send_signal(signal.SIGKILL)
        start = time.monotonic()
        assert waiting.stdout.readline().startswith("seated")
        assert time.monotonic() - start < 2
    finally:
        for process in (child, waiting):
            process.kill()
            process.wait()


def test_gpu_steps_spread_over_the_gpus_before_they_share_one(
    tmp_path: Path, gpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    wanted = settings(tmp_path, device="cuda", seats=2)
    seen = []
    with take_seat(wanted) as first:
        seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
        os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"  # what another process would have inherited
        with take_seat(wanted) as second:
            seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
            os.environ["CUDA_VISIBLE_DEVICES"] = "1,0"
            with take_seat(wanted) as third:
                seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert seen == [gpus[1], gpus[0], gpus[1]]
    assert (first.number, second.number, third.number) == (0, 0, 1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,0", "the mask is as it was"


def test_the_pool_counts_the_same_seats(tmp_path: Path, gpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_seats(settings(tmp_path)) == 1, "the CPU is one seat"
    full = settings(tmp_path, device="cuda", seats=3, size=(832, 480))
    assert count_seats(full) == 3 + 3 + 1, "fewer where memory is small, never none"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert count_seats(full) == 3


def test_no_visible_gpu_is_said_plainly(tmp_path: Path, gpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemFault, match="no GPU is visible"), take_seat(settings(tmp_path, device="cuda")):
        pass


def test_under_ray_and_kubernetes_seats_stand_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    with take_seat(settings(tmp_path, device="cuda"), executor="ray") as seat:
        assert seat.device is None and str(seat) == "the executor's device"
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    assert not (tmp_path / "seats").exists()


def test_the_lock_is_not_inherited_by_programs_that_a_step_starts(tmp_path: Path) -> None:
    with take_seat(settings(tmp_path)):
        child = subprocess.Popen(["sleep", "30"])
    try:
        with take_seat(settings(tmp_path)) as again:
            assert again.waited_seconds < 1
    finally:
        child.kill()
        child.wait()


def test_a_lock_file_removed_by_a_cleaner_guards_again(tmp_path: Path) -> None:
    child = holder(tmp_path)
    try:
        for file in seats_folder().iterdir():
            assert child.pid == int(file.read_text())
    finally:
        child.kill()
        child.wait()
    with take_seat(settings(tmp_path)):
        assert len(list(seats_folder().iterdir())) == 1, "the file stays, only the lock goes"


def test_steps_on_one_gpu_take_turns_and_those_on_two_do_not(
    tmp_path: Path, gpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(tmp_path, device="cuda", seats=2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    seats = ExitStack()
    with seats:
        first = seats.enter_context(take_seat(wanted))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
        neighbour = seats.enter_context(take_seat(wanted))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        elsewhere = seats.enter_context(take_seat(wanted))
        got = threading.Event()

        def encode() -> None:
            with neighbour.turn():
                got.set()

        thread = threading.Thread(target=encode)
        with first.turn(), elsewhere.turn():
            thread.start()
            assert not got.wait(0.5), "two steps encoded on one GPU at a time"
        assert got.wait(5)
        thread.join()


def test_without_a_gpu_a_turn_waits_for_nobody(tmp_path: Path) -> None:
    with take_seat(settings(tmp_path)) as seat, seat.turn(), seat.turn():
        assert seat.turn_file is None
