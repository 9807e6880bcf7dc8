"""Names, order as values, split."""

import hashlib

import pytest

from gc25d_core.names import ClipId, check_run_name, split_of


def test_clips_sort_by_value_not_as_text():
    a, b = ClipId(2, "R10_s1", 999_996, "x"), ClipId(2, "R10_s1", 1_000_000, "x")
    assert sorted([ClipId(10, "A", 0, "y"), b, a]) == [a, b, ClipId(10, "A", 0, "y")]
    assert b.name == "02_x__R10_s1__1000000" < a.name


@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "a/b", "..", "a.b", "ä", "a\n"])
def test_odd_run_names_are_refused(name):
    with pytest.raises(ValueError, match="1 to 64 characters"):
        check_run_name(name)


def test_split_is_the_documented_function_of_the_name_alone():
    names = [f"R10_s{i}" for i in range(3000)]
    val = [n for n in names if split_of(n) == "val"]
    assert val == [n for n in names if int.from_bytes(hashlib.sha256(n.encode()).digest()[:4], "big") % 20 == 0]
    assert 0.03 < len(val) / len(names) < 0.07
