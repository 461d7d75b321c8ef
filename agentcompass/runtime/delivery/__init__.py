"""What is done about one message, from its run to its end."""
