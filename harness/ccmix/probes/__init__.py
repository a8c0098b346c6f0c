"""Records what happens beside the traffic. Probes leave raw files on disk; tables are made of them after the run."""
