"""Processes: the Celery workers, who supervises them, and the leash that ties them to a parent."""
