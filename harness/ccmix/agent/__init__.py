"""Runs on the hosts themselves. It imports only the standard library and this package, and runs on
Python 3.9, because it is sent to hosts as source.
"""
