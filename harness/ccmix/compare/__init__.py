"""Compares two campaigns, condition by condition: do their hosts, paths and results differ?"""
