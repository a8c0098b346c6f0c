"""Experiments of published papers: what they measured, what they published, and what the lab says to that."""
