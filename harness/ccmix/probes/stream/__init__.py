"""Reads the binary stream of the probe ccmix-sockmon; probes/sockmon/README.md documents the
stream and the tables.
"""
