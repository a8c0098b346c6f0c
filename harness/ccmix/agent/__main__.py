"""Runs the agent as `python -m ccmix.agent`, with its controller on standard input and output."""

from ccmix.agent.service import main

main()
