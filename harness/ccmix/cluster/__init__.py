"""Makes runs of the lab on the workers of a Dask cluster: docs/howto/run-on-a-cluster.md."""
