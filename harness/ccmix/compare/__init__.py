"""Compares two campaigns by condition: what differs between their hosts and paths, and whether the results do."""
