"""What we change in Celery and kombu, one reason per module, each with its regression test."""
