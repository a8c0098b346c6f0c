"""Makes the traffic."""
