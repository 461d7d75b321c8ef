"""From a sealed run to its end: what an attached coordinator and a watchdog do."""
