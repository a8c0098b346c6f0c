"""Examines whether a host is fit for a test, and lists commands for fixes. Changes nothing."""

from ccmix.doctor.report import DoctorFinding, Status

__all__ = ["DoctorFinding", "Status"]
