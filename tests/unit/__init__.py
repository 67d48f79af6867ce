"""Unit tests: no Ray, no sleep, no network; `conftest.py` makes sure of it."""
