"""The Dagster home: where it is, what is in it, and that one process at a time runs servers on it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from gc25d_assets.cli.home import FOLDER_PREFIX, Holder, HomeBusy, hold_home, is_held, prepare_home, wait_for_holder
from gc25d_assets.cli.session import _refuse_other_settings
from gc25d_core.errors import SettingsError
from gc25d_core.settings import Settings

HOLDER = Holder(os.getpid(), "up", "http://127.0.0.1:1", {"out": "x"}, "/nowhere")
HOLD = """
import sys, time
from pathlib import Path
from gc25d_assets.cli.home import Holder, hold_home
with hold_home(Path(sys.argv[1])) as lock:
    lock.announce(Holder(1, "up", "http://127.0.0.1:1", {}, sys.argv[2]))
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def settings(source: Path, tmp_path: Path) -> Settings:
    return Settings.resolve(src=source, out=tmp_path / "ds", size=(64, 32))


def test_the_home_lies_beside_the_data(settings: Settings) -> None:
    home = prepare_home(settings)
    assert home == settings.out / ".dagster"
    assert "run_monitoring" in (home / "dagster.yaml").read_text()


def test_dagster_home_is_honoured(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "mine"))
    assert prepare_home(settings) == tmp_path / "mine"
    assert not (settings.out / ".dagster").exists()


def test_a_dagster_yaml_that_is_there_is_left_alone(settings: Settings) -> None:
    home = settings.out / ".dagster"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    prepare_home(settings)
    assert (home / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with hold_home(tmp_path) as lock:
        lock.announce(HOLDER)
        assert is_held(tmp_path)
        with (
            pytest.raises(HomeBusy, match=rf"`gc25d up` \(process {os.getpid()}\)"),
            hold_home(tmp_path, patience_s=0.1),
        ):
            pass
    assert not is_held(tmp_path)
    with hold_home(tmp_path):
        pass


def test_the_holder_is_found_once_its_servers_answer(tmp_path: Path) -> None:
    assert wait_for_holder(tmp_path) is None
    with hold_home(tmp_path) as lock:
        lock.announce(replace(HOLDER, url=None))
        with pytest.raises(HomeBusy):
            wait_for_holder(tmp_path, patience_s=0.1)
        lock.announce(HOLDER)
        assert wait_for_holder(tmp_path) == HOLDER


def test_a_killed_holder_leaves_neither_lock_nor_folder(tmp_path: Path) -> None:
    left = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path), str(left)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    assert is_held(tmp_path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not is_held(tmp_path)
    with hold_home(tmp_path):
        assert not left.exists()


def test_a_foreign_folder_in_the_lock_file_is_not_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    with hold_home(tmp_path) as lock:
        lock.announce(replace(HOLDER, folder=str(precious)))
    with hold_home(tmp_path):
        assert precious.is_dir()


def test_a_build_with_other_settings_than_the_running_up_is_refused(settings: Settings) -> None:
    holder = replace(HOLDER, settings=settings.to_json())
    _refuse_other_settings(replace(settings, workers=settings.workers + 1), holder)  # speed only
    with pytest.raises(SettingsError, match=r"size: \[64, 32\] there, \[96, 48\] here"):
        _refuse_other_settings(replace(settings, size=(96, 48)), holder)
