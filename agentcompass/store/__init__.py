"""The only code that touches a run directory."""
