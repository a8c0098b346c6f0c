"""Makes throughput tests whose streams use different congestion control algorithms (CCAs):
pScheduler's tool iperf3mix.

The executables in the folder above this package are the tool's six methods; each calls a function
of `methods`. The package imports only the standard library of Python 3.9, so the tool needs neither
pScheduler's library nor ccmix on the host.
"""

NAME = "iperf3mix"
VERSION = "1.1"
