"""Small checkpoints for tests, how they were trained, and the pages that they read."""
