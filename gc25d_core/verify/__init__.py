"""Verification of a data set: `verify` for all of it, its parts for asset checks.

    structural_run(settings, run)         every clip of one run
    spot_checks(settings, spot_rows(...)) some clips against the recording, by other code than made them
    spot_vae(settings, rows)              some latents encoded anew and decoded

A check never raises for what lies on the disk: what cannot be read is a finding.
"""

from gc25d_core.verify.dataset import counts, index_checks, pool_check, state_checks
from gc25d_core.verify.report import VerifyReport, spot_checks, verify
from gc25d_core.verify.results import CheckResult, merge
from gc25d_core.verify.sampling import spot_rows
from gc25d_core.verify.spot_vae import default_spot_vae, spot_vae
from gc25d_core.verify.structural import structural_run

__all__ = [
    "CheckResult",
    "VerifyReport",
    "counts",
    "default_spot_vae",
    "index_checks",
    "merge",
    "pool_check",
    "spot_checks",
    "spot_rows",
    "spot_vae",
    "state_checks",
    "structural_run",
    "verify",
]
