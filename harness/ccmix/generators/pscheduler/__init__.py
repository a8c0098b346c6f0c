"""Uses pScheduler (perfSONAR's scheduler of measurements) as a generator of traffic.

Written from the documented interface of pScheduler 5.2
(https://docs.perfsonar.net/pscheduler_rest_api.html).
"""
