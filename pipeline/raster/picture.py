"""Images through Pillow: every frame upright, on white, 8 bits, one channel where it is gray."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, ImageOps, PngImagePlugin

from pipeline.document import MULTI_FRAME_TYPES
from pipeline.errors import ErrorCode, PageFault
from pipeline.page import MAX_IMAGE_PIXELS, Page, RasterRule, SizedPage
from pipeline.raster.tone import without_colour
from pipeline.result import one_line

Image.MAX_IMAGE_PIXELS = None  # `RasterLimits.max_image_pixels` is checked instead, as an error with a code
# Colour profiles of printers, and what Photoshop notes, are larger than the 1 MiB that Pillow lets a chunk inflate to.
PngImagePlugin.MAX_TEXT_CHUNK = 16 << 20

_FORMATS = {
    "image/png": ("PNG",),
    "image/jpeg": ("JPEG", "MPO"),
    "image/jp2": ("JPEG2000",),
    "image/tiff": ("TIFF",),
    "image/gif": ("GIF",),
    "image/webp": ("WEBP",),
    "image/bmp": ("BMP",),
    "image/x-portable-anymap": ("PPM",),
}
_TURNS = {3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}
"""EXIF orientation (tag 274) to the degrees clockwise by which `exif_transpose` turns the picture."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """Measures of one frame as it will stand upright; `dpi_x` and `dpi_y` are None where not believable."""

    width_px: int
    height_px: int
    dpi_x: float | None
    dpi_y: float | None
    rotation: int

    @property
    def dpi(self) -> float | None:
        return max(self.dpi_x, self.dpi_y) if self.dpi_x and self.dpi_y else None

    @property
    def stretched(self) -> tuple[float, float]:
        """Width and height with square pixels: a fax of 204 by 98 dpi is drawn twice as high."""
        if not (self.dpi_x and self.dpi_y) or not 1.05 < max(self._skew, 1 / self._skew) < 4:
            return self.width_px, self.height_px
        return self.width_px * max(1.0, 1 / self._skew), self.height_px * max(1.0, self._skew)

    @property
    def _skew(self) -> float:
        return (self.dpi_x or 1) / (self.dpi_y or 1)


class PictureReader:
    """One opened image file; its frames are the pages, or the first picture is."""

    def __init__(self, path: str, media_type: str, max_pixels: int = MAX_IMAGE_PIXELS) -> None:
        self._max_pixels = max_pixels
        self._file = _open(path)
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            try:
                self._image = Image.open(self._file, formats=_FORMATS[media_type])
                frames = getattr(self._image, "n_frames", 1) if media_type in MULTI_FRAME_TYPES else 1
            except Exception as error:
                self._file.close()
                raise PageFault(ErrorCode.BROKEN_DOCUMENT, _complaint(error, self._file)) from error
        self.page_count = int(frames)

    def size(self, page: Page, rule: RasterRule) -> SizedPage:
        """The measures that `render` will give."""
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            try:
                self._image.seek(page.page_index)
                return _sized(page, _frame_of(self._image, self._max_pixels), rule, channels=1)
            except PageFault:
                raise
            except Exception as error:
                raise PageFault(ErrorCode.BROKEN_PAGE, _complaint(error, self._file)) from error

    def layer(self, page: Page, rule: RasterRule) -> None:
        """There is none."""

    def render(self, page: Page, rule: RasterRule) -> tuple[SizedPage, NDArray[Any]]:
        """Decode one frame, turn it upright, flatten it to 8 bits on white and scale it."""
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always")
            try:
                frame, pixels = self._decode(page, rule)
            except MemoryError as error:
                raise PageFault(ErrorCode.OUT_OF_MEMORY, "decoding the image ran out of memory") from error
            except PageFault:
                raise
            except Exception as error:
                raise PageFault(ErrorCode.BROKEN_PAGE, _complaint(error, self._file)) from error
        said = one_line("; ".join(str(c.message) for c in complaints), 400)
        channels = 1 if pixels.ndim == 2 else 3
        return _sized(page, frame, rule, channels).warned(f"renderer: {said}" if said else None), pixels

    def close(self) -> None:
        """Close the file."""
        self._image.close()
        self._file.close()

    def _decode(self, page: Page, rule: RasterRule) -> tuple[_Frame, NDArray[Any]]:
        image = self._image
        image.seek(page.page_index)
        frame = _frame_of(image, self._max_pixels)
        target = _sized(page, frame, rule, channels=1)
        size = (target.width_px, target.height_px)
        if image.format == "JPEG" and page.page_count == 1:
            image.draft(None, size if frame.rotation % 180 == 0 else size[::-1])
        upright = ImageOps.exif_transpose(_flattened(_in_srgb(image)))
        if upright.size != size:
            upright = upright.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)
        return frame, without_colour(np.asarray(upright))


def _open(path: str) -> BinaryIO:
    """Open the file for Pillow, which given a name would map it.

    A mapped file that is cut short meanwhile kills the process, and a mapped TIFF that has to be turned by a
    quarter comes out garbled (Pillow 13.0).
    """
    try:
        return open(path, "rb")
    except OSError as error:
        raise PageFault(ErrorCode.UNREADABLE, error.strerror or str(error)) from error


def _frame_of(image: Image.Image, max_pixels: int) -> _Frame:
    width_px, height_px = image.size
    if width_px < 1 or height_px < 1:
        raise PageFault(ErrorCode.BROKEN_PAGE, f"the image is {width_px} x {height_px} pixels")
    if width_px * height_px > max_pixels:
        size = f"{width_px} x {height_px} are {width_px * height_px:,} pixels"
        raise PageFault(ErrorCode.PAGE_TOO_LARGE, f"{size}, the limit is {max_pixels:,} (--max-image-pixels)")
    dpi_x, dpi_y = _dpi_of(image)
    orientation = image.getexif().get(0x0112, 1)
    if orientation in (5, 6, 7, 8):
        dpi_x, dpi_y = dpi_y, dpi_x
        if image.format != "TIFF":  # Pillow tells the size of a TIFF as it stands upright, of all others as stored
            width_px, height_px = height_px, width_px
    return _Frame(width_px, height_px, dpi_x, dpi_y, _TURNS.get(orientation, 0))


def _dpi_of(image: Image.Image) -> tuple[float | None, float | None]:
    """What the file says of its resolution, if it is a pair of numbers that a scanner could have."""
    try:
        dpi_x, dpi_y = (float(value) for value in image.info.get("dpi", ()))
    except (TypeError, ValueError, ZeroDivisionError):
        return None, None
    plausible = all(math.isfinite(d) and 50 <= d <= 4800 for d in (dpi_x, dpi_y))
    return (dpi_x, dpi_y) if plausible else (None, None)


def _sized(page: Page, frame: _Frame, rule: RasterRule, channels: int) -> SizedPage:
    width, height = frame.stretched
    fit = rule.fit_pixels(width, height, frame.dpi)
    return SizedPage(
        page,
        fit.width_px,
        fit.height_px,
        channels,
        dpi=frame.dpi * fit.scale if frame.dpi else None,
        rotation=frame.rotation,
        length=rule.length(fit.width_px, fit.height_px),
        warning=fit.note,
    )


def _in_srgb(image: Image.Image) -> Image.Image:
    """The same picture in the colours that its ICC profile means, if it has another than sRGB; gray stays as it is."""
    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "CMYK"):
        return image
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if "srgb" in ImageCms.getProfileDescription(source).lower():
            return image
        made = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):  # a damaged profile, or one of another kind of colours
        return image
    return _keep_exif(made or image, image)


def _flattened(image: Image.Image) -> Image.Image:
    """The same picture in mode L or RGB, transparent parts on white; metadata such as EXIF kept."""
    if image.mode in ("L", "RGB"):
        return image
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        return _keep_exif(_eight_bits(image), image)
    if image.mode == "1":
        return image.convert("L")
    if image.mode == "LAB":
        profiles = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        turned = ImageCms.applyTransform(image, ImageCms.buildTransform(*profiles, "LAB", "RGB"))
        return _keep_exif(turned or image, image)
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        return _keep_exif(_on_white(image.convert("RGBA")), image)
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Gray of more than 8 bits: 10, 12, 14 or 16 by what the values need; others by their own range.

    Scanners store 12 bits in 16-bit samples, and for 32-bit and float nothing says what white is.
    """
    values = np.asarray(image).astype(np.float32)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if image.mode != "F" and low >= 0 and high < 65536:
        low, high = 0.0, next(float(top) for top in (255, 1023, 4095, 16383, 65535) if high <= top)
    scaled = (np.nan_to_num(values, nan=high) - low) * (255.0 / max(high - low, 1e-9))
    return Image.fromarray(np.clip(scaled, 0, 255).astype(np.uint8))


def _on_white(image: Image.Image) -> Image.Image:
    paper = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(paper, image).convert("RGB")


def _keep_exif(made: Image.Image, original: Image.Image) -> Image.Image:
    """Let `exif_transpose` still see the orientation of the picture this one was made from."""
    orientation = original.getexif().get(0x0112)
    if orientation:
        made.getexif()[0x0112] = orientation
    return made


def _complaint(error: Exception, file: BinaryIO) -> str:
    text = str(error).replace(f" {file!r}", "") or type(error).__name__
    return one_line(text, 300)
