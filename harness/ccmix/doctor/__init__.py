"""Is a host fit for the test? What is read of it, judged, with the command that mends it. Nothing is changed."""

from ccmix.doctor.findings import Finding, Status

__all__ = ["Finding", "Status"]
