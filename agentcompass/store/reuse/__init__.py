"""What a run takes over from another one: reading the source, writing the target."""
