"""Coming."""
