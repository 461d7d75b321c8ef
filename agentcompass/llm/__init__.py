"""Clients of model endpoints: one call in, one reply or one classified failure out.

`base` holds the types, `client` the loop that plug-ins call, `backoff` its waiting, `spending` what a call
cost. `protocols` picks the sender; a sender knows one protocol, `wire` what they share, `replies` how to
read an answer.
"""
