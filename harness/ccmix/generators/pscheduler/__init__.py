"""pScheduler as a generator: its REST interface, the tasks of an entry, and what came of a run.

Written from the documented interface of pScheduler 5.2 (https://docs.perfsonar.net/pscheduler_rest_api.html).
"""
