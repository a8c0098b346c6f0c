"""`python -m ccmix.agent`: the agent, with its controller on standard input and output."""

from ccmix.agent.service import main

main()
