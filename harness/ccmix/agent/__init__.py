"""Runs on the hosts themselves. It imports nothing but the standard library and this package, and runs on Python
3.9, since it is sent to hosts as source.
"""
