"""The rules of a `MetricReport`, by topic; each yields what is broken and never raises."""
