"""Upkeep: few large parts in the place of many small ones, and rows dropped that nobody needs any more."""
