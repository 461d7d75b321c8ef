"""What watches over executions from outside: heartbeats, deadlines, stops, the reaper."""
