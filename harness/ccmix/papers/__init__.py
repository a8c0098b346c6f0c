"""Experiments from published papers: their settings, their published numbers and statements, and
the results of the lab.
"""
