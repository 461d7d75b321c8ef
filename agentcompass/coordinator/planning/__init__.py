"""From a request to a sealed run directory."""
