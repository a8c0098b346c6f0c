"""The lab: a Linux kernel in virtual time, run as an ordinary process."""

from ccmix.lab.guest import JOB_DIR, GuestError, GuestResult, GuestSpec, run_guest

__all__ = ["JOB_DIR", "GuestError", "GuestResult", "GuestSpec", "run_guest"]
