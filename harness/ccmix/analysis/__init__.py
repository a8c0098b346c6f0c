"""Turns raw files of a run into tables, metrics and a verdict, and runs into statistics."""
