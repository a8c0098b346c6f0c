"""Runs on the measured hosts, on behalf of ccmix: commands, changes and their undo.

It imports only the standard library and this package, and runs on Python 3.9, because it is sent to
hosts as source.
"""
