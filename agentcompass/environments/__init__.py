"""Built-in environments and their base class."""
