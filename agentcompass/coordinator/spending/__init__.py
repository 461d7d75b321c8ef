"""What a run has spent and how much of it went wrong, and when that is enough."""
