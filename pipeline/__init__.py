"""Pagemill: an offline bulk document OCR pipeline; this package is the flow, in its own words."""

import os

__version__ = "0.1.0"

# ONNX Runtime 1.29 and newer sends what models it loads to its makers, and keeps a number of the machine in HOME,
# unless it is told not to before it is imported; PyMuPDF 2 imports it as well. Nobody asked for either.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
