"""HunyuanOCR: the engine's parts, importable without a GPU."""
