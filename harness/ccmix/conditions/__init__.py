"""Changes hosts for a run (qdiscs, sysctls, CCAs, emulated paths), and undoes the changes after it.

The changes are context managers. Host.changed writes the undo to disk before it changes anything.
"""
