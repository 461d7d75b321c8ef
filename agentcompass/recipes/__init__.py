"""Built-in recipes and their base class."""
