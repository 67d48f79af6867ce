"""What the engine `rapidocr` is made of: frames, the detector, and the recognizer with its pooled crops."""
