"""Stand-ins and servers that tests share."""
