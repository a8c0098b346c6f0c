"""What can go wrong with a cluster. Imports nothing, so that the command line may know it."""


class ClusterError(Exception):
    """Says why a cluster can't be used, and what to do."""
