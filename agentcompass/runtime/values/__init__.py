"""What plug-ins hand over, made fit to be written: strict JSON, checked, without live secrets."""
