"""Writing a run of ours as another program would have left it."""
