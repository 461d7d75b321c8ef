"""Containers of a Docker engine, through the Docker SDK: the extra `docker`."""
