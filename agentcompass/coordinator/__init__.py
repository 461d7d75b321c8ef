"""From a request to a report: plan, reserve, dispatch, watch, finalize."""
