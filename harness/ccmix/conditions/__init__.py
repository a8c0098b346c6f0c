"""What a run changes on a host: context managers; Host.changed has the undo on disk before anything is changed."""
