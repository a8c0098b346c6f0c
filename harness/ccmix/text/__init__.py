"""Formats text for people: tables for the terminal, Markdown and CSV, words around numbers, and the
environments of templates. It computes no statistics.
"""
