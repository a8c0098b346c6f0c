"""Changes hosts for a run, in context managers. Host.changed writes the undo to disk before it
changes anything.
"""
