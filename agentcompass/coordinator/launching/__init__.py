"""From a suite file to many runs that are started together, and what became of each."""
