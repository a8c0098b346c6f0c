"""Observes hosts and connections during the traffic: sockets, queues, processors and packets.

Probes leave raw files on disk, from which ccmix makes tables after the run.
"""
