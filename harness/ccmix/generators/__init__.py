"""What makes the traffic."""
