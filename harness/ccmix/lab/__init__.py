"""Runs the lab: a Linux kernel in virtual time, as an ordinary process."""

from ccmix.lab.guest import GuestResult, run_guest, run_shell
from ccmix.lab.spec import CODE_DIR, JOB_DIR, GuestError, GuestSpec

__all__ = [
    "CODE_DIR",
    "JOB_DIR",
    "GuestError",
    "GuestResult",
    "GuestSpec",
    "run_guest",
    "run_shell",
]
