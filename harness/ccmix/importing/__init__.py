"""Results that others measured, of several kinds, into an archive: what is there is kept, what isn't is marked."""
