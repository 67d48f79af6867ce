"""Tuning: which batch size suits an engine on this machine, measured and kept; above the engines, below the jobs."""
