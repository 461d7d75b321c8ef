"""From a run in any state to the work that is left."""
