"""Built-in analyzers and their base class."""
