"""Formats text for people: tables, words around numbers, and the environments of templates.

It computes no statistics.
"""
