"""Names of synthetic runs, their family and their biome. Names do not depend on the seed."""

from __future__ import annotations

import hashlib

#: The first names are fixed; `P9_golden_s2916` is there because it falls in the val split.
FIRST_RUNS = ("R10_s1501", "R10_s1512", "P9C_autumn_s1941", "P9_golden_s2916", "P9_golden_s2909")


def default_run_names(count: int) -> list[str]:
    """The first `count` run names: the fixed ones, then v10 and v9 in turn. A longer list starts with the shorter."""
    names = list(FIRST_RUNS[:count])
    for index in range(len(FIRST_RUNS), count):
        step = index // 2
        if index % 2:
            names.append(f"R10_s{1501 + 11 * step}")
        elif step % 2:
            names.append(f"P9C_autumn_s{1941 + 7 * step}")
        else:
            names.append(f"P9_golden_s{2909 + 7 * step}")
    return names


def family_of(run: str) -> str:
    """ "v10" for names that start with R10, else "v9"."""
    return "v10" if run.startswith("R10") else "v9"


def falls_in_val(run: str) -> bool:
    """True where the run's name puts it into the val split (5 % of names)."""
    return int(hashlib.sha256(run.encode()).hexdigest()[:8], 16) % 20 == 0
