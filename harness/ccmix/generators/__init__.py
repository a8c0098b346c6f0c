"""Makes the traffic of runs: iperf3, pScheduler, HTTP and users' own commands."""
