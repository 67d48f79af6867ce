"""Sheet: a page whose pixels lie in a file, so that several processes can look at them and none has to hold them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.page import Raster, SizedPage


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page and where its pixels are."""

    sized: SizedPage
    path: Path

    @classmethod
    def lay_down(cls, raster: Raster, path: Path) -> Sheet:
        """Write the pixels to a file."""
        np.save(path, raster.pixels, allow_pickle=False)
        return cls(raster.sized, path)

    def raster(self) -> Raster:
        """The page with its pixels, mapped read-only."""
        return Raster(self.sized, np.load(self.path, mmap_mode="r", allow_pickle=False))
