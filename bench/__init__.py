"""What things cost, as ratios to floors measured in the same run: `make bench`."""
