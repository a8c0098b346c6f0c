"""The pScheduler tool iperf3mix: throughput tests whose streams use different congestion control algorithms (CCAs).

Its six methods are the executables beside this package; each is a function of `methods`. Nothing but the standard
library of Python 3.10 is imported, so that the tool needs neither pScheduler's library nor ccmix on the host.
"""

NAME = "iperf3mix"
VERSION = "1.0"
