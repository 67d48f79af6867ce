"""Pagemill: an offline bulk document OCR pipeline; this package is the flow, in its own words."""

import os

# ONNX Runtime sends telemetry to its makers unless this is set before it loads, in each process (1.32 and newer).
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"
