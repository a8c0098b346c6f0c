"""Makes throughput tests whose streams use different congestion control algorithms (CCAs): pScheduler's tool iperf3mix.

The executables beside this package are its six methods; each calls a function of `methods`. The package imports nothing
but the standard library of Python 3.9, so that the tool needs neither pScheduler's library nor ccmix on the host.
"""

NAME = "iperf3mix"
VERSION = "1.1"
