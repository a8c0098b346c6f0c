"""Observes hosts and connections during the traffic. Probes leave raw files on disk, from which
ccmix makes tables after the run.
"""
