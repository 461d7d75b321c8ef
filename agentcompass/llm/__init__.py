"""Clients of model endpoints: one call in, one reply or one classified failure out.

`base` holds the types, `backoff` the waiting, `replies` the reading of an answer, `openai_chat` the
wire of one protocol, and `client` the loop around it that plug-ins call.
"""
