"""Raw files of a run to tables, metrics and a verdict; runs of a condition to statistics."""
