"""Words and tables for people: picks, formats and aligns numbers; computes none."""
