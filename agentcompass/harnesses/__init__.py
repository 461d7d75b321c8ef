"""Built-in harnesses and their base class."""
