"""Ctrl-C and SIGTERM: one exception, once, and nothing of it inherited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from gc25d_assets.cli.stopping import Stopped, signals_raise

CHILD_OF_A_DEAF_PARENT = """
import signal, subprocess, sys
from gc25d_assets.cli.stopping import signals_raise
signal.signal(signal.SIGINT, signal.SIG_IGN)
with signals_raise():
    sys.exit(subprocess.run([sys.executable, "-c",
        "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"]).returncode)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_raises_stopped_with_its_exit_code(number: signal.Signals, code: int) -> None:
    with pytest.raises(Stopped) as caught, signals_raise():
        os.kill(os.getpid(), number)
    assert caught.value.exit_code == code


def test_a_second_signal_does_not_cut_the_cleaning_up_short() -> None:
    cleaned = False
    with pytest.raises(Stopped), signals_raise():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            cleaned = True
    assert cleaned


def test_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with signals_raise():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_servers_hear_ctrl_c_though_a_script_ignored_it_for_us() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD_OF_A_DEAF_PARENT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_an_ignored_ctrl_c_stays_without_effect() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_raise():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
