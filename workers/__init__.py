"""The only code that imports celery: app, tasks, dispatch, leases, the embedded broker."""
