"""Imports third-party results into an archive: keeps the values of a source, and marks the missing
ones.
"""
