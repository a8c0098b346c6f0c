"""Imports third-party results, such as JSON of iperf3, into an archive of ccmix.

It keeps the values of a file, and marks the missing ones.
"""
