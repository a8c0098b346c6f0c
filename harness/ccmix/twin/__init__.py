"""Estimates what a real path is from what runs over it recorded, and writes the emulated path that stands for it."""
