"""Built-in benchmarks and their base class."""
