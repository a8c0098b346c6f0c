"""Uses pScheduler as a generator: its REST interface, the tasks of an entry, and the results of its
runs.

Written from the documented interface of pScheduler 5.2
(https://docs.perfsonar.net/pscheduler_rest_api.html).
"""
