"""Examines whether a host is fit for a test, and gives the commands that mend it. It changes nothing."""

from ccmix.doctor.findings import DoctorFinding, Status

__all__ = ["DoctorFinding", "Status"]
