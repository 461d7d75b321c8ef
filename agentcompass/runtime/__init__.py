"""The life of one attempt, without Celery."""
