"""One execution of one attempt: what it knows, what can go wrong in it, what is recorded."""
