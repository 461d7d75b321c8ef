"""Pure functions from observations to a MetricReport; no I/O."""
