"""What all workers may do at once, counted in Redis."""
