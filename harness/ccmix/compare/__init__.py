"""Compares two campaigns by condition: lists the differences between their hosts and paths, and
tests whether the results differ.
"""
