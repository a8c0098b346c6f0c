"""Imports results that others measured into an archive: keeps what a source has, and marks what it lacks."""
