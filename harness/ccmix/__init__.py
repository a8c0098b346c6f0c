"""ccmix measures how TCP congestion control algorithms share a path."""
