"""Changes hosts for a run, in context managers; Host.changed has the undo on disk before anything is changed."""
