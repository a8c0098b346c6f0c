"""Names the numbers of the agent's protocol that both ends know."""

LONGEST_MESSAGE = 1_000_000  # bytes of the agent's messages; the controller refuses longer ones (hosts/caps.py)
MOST_RECEIVED = 2**29  # bytes of the controller's messages, which have whole files
BEATS_IN_SILENCE = 6  # of each side, in the time after which the other takes it for lost
