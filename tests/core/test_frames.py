"""Frame arithmetic against the definitions, and for every T."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gc25d_core import frames as fr


def test_a_clip_has_21_cells_and_28_with_its_extension():
    assert fr.cells_of(81) == 21
    assert fr.cells_of(109) == 28


@given(st.integers(-10, 500))
def test_only_t_of_form_4k_plus_1_has_cells(t):
    if t >= 1 and t % 4 == 1:
        assert 4 * (fr.cells_of(t) - 1) + 1 == t
    else:
        with pytest.raises(ValueError, match="T % 4 must be 1"):
            fr.cells_of(t)


def test_28_frames_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="wrong phase"):
        fr.cells_of(28)


@given(st.integers(0, 10**6).map(lambda n: 4 * n))
def test_cells_tile_the_frames_of_clip_and_extension(s):
    covered = [f for k in range(28) for f in fr.cell_frames(s, k)]
    assert covered == list(range(s, s + 109))
    assert [f for k in range(21) for f in fr.cell_frames(s, k)] == list(fr.clip_frames(s))
    assert [f for k in range(21, 28) for f in fr.cell_frames(s, k)] == list(fr.ext_frames(s))


@given(st.integers(0, 10**6).map(lambda n: 4 * n), st.integers(0, 26))
def test_block_j_starts_one_frame_before_the_cell_it_drives(s, j):
    run_block = fr.full_blocks(s, True)[j]
    assert run_block == s // 4 + j
    cell = fr.cell_frames(s, fr.cell_of_block(j))
    assert [4 * run_block + i + 1 for i in range(4)] == list(cell)


@pytest.mark.parametrize("s", [-4, 1, 2, 3, True, 2.0, "4"])
def test_a_clip_start_that_is_no_multiple_of_4_is_refused(s):
    with pytest.raises(ValueError, match="multiple of 4"):
        fr.clip_frames(s)


def test_extension_blocks_follow_the_clips_blocks():
    assert list(fr.clip_blocks(8)) == list(range(2, 22))
    assert list(fr.ext_blocks(8)) == list(range(22, 29))
    with pytest.raises(ValueError, match="cell 28"):
        fr.cell_frames(0, 28)
