"""Runs the lab: a Linux kernel in virtual time, as an ordinary process."""

from ccmix.lab.errors import GuestError
from ccmix.lab.guest import GuestResult, run_guest
from ccmix.lab.shell import run_shell
from ccmix.lab.spec import CODE_DIR, JOB_DIR, GuestSpec

__all__ = ["CODE_DIR", "JOB_DIR", "GuestError", "GuestResult", "GuestSpec", "run_guest", "run_shell"]
