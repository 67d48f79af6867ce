"""Tests that run small models on the CPU; they need the extra `torch`."""
