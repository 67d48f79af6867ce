"""Pagemill: an offline bulk document OCR pipeline; this package is the flow, in its own words."""

__version__ = "0.1.0"
