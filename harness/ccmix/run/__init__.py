"""Makes runs: measures them in the lab, here or between hosts, makes tables, and runs campaigns."""
