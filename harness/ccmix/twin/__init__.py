"""Estimates the properties of a real path from recorded runs, and writes an emulated path with the
same properties: its twin.
"""
