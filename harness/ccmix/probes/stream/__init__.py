"""Reads the binary output of the probe ccmix-sockmon into tables.

probes/sockmon/README.md documents the stream and the tables.
"""
