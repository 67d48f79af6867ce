"""What one can ask Pagemill for; wiring only, the work is done in `pipeline`."""
