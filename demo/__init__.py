"""The demonstration: `python -m demo.run`, or `make demo`."""
