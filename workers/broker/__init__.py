"""What lives in Redis: lanes, messages, leases, parked deliveries."""
