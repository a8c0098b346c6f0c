"""Estimates a real path's properties from recorded runs, and writes its twin.

The twin is an emulated path with the same properties.
"""
