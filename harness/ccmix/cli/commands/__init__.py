"""A module for each command: its options and its help, quick to import. What it does is a module of its own beside this
package, imported when the command is called: libraries that are slow to import wait until then.
"""
