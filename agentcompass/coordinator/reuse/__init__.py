"""What a new run takes over from an earlier one: which source, which attempts, and why."""
