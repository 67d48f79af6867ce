"""Look: what is on a page of a PDF, told by MuPDF without drawing it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.raster.library import pymupdf

_mupdf = pymupdf.mupdf

_COVERED, _MIN_SCAN_DPI = 0.9, 50.0
"""How much of a page a scan covers, and the coarsest scan; what is coarser is a picture that was enlarged."""
_MAX_PICTURES = 50
"""Pictures of a page that are looked at for text under them; more are bricks of one picture or a pattern."""
_TRANSFORM = re.compile(r"/ColorTransform|/DecodeParms\s*(\[\s*)?\d|/Filter\s*(\[\s*)?\d")
_NEAR_PT = (-0.01, -0.01, 0.01, 0.01)
_DRAWS = ("fill_path", "stroke_path", "fill_text", "stroke_text", "fill_shade", "fill_image_mask")
_CHANGES = (
    *("clip_stroke_path", "clip_text", "clip_stroke_text", "clip_image_mask"),
    *("begin_mask", "begin_group", "begin_tile"),
)
"""What MuPDF may do with a page's content: put something on it, and have what it puts there look otherwise."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A picture of the page and where it stands: the corners of the unit square (a to f) in points."""

    image: Any
    matrix: tuple[float, float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Scene:
    """What a page shows that shows nothing but scans.

    `finest_dpi` is the resolution of the finest of them: a finer raster shows no more. `only` is the picture where
    there is one and nothing cuts it, covers it or shines through it; `spaces` is what device colours stand for there.
    """

    finest_dpi: float
    only: Placed | None = None
    spaces: Any = None


def scene_of(loaded: Any, drawing: Any | None = None) -> Scene | None:
    """What the page shows if it is nothing but scans; None for any other page, which is drawn as finely as asked for.

    Annotations and letters make it another page. `drawing` is its display list, made if it is not given.
    """
    try:
        if not loaded.parent.is_pdf or (drawing is None and not loaded.get_images()):
            return None
        watcher = _watched(drawing or loaded.get_displaylist())
        finest_dpi = None if watcher.shows_more else _finest(watcher.placed, loaded.rect.get_area())
        if finest_dpi is None or not loaded.get_images() or _is_marked(loaded):
            return None
        is_plain = len(watcher.placed) == 1 and not watcher.is_changed and _is_whole(watcher, loaded.rect)
        only = watcher.placed[0] if is_plain else None
        return Scene(finest_dpi, only, watcher.spaces)
    except MemoryError:
        raise
    except Exception:  # what is broken there will be met, and told of, when the page is drawn
        return None


def _finest(placed: Sequence[Placed], area: float) -> float | None:
    covered = finest = 0.0
    for one in placed:
        a, b, c, d, *_ = one.matrix
        across_pt, down_pt = math.hypot(a, b), math.hypot(c, d)
        covered += abs(a * d - b * c)
        finest = max(finest, 72 * one.image.w() / max(across_pt, 1e-3), 72 * one.image.h() / max(down_pt, 1e-3))
    return finest if covered >= _COVERED * area and finest >= _MIN_SCAN_DPI else None


def _is_whole(watcher: _Watcher, page: Any) -> bool:
    """Whether no clip takes away anything of the picture that the page would show."""
    seen = pymupdf.Rect(0, 0, 1, 1).transform(pymupdf.Matrix(*watcher.placed[0].matrix)) & page
    return all((clip + _NEAR_PT).contains(seen) for clip in watcher.clips)


def _is_marked(loaded: Any) -> bool:
    return any(True for _ in loaded.annots()) or any(True for _ in loaded.widgets())


def may_be_untransformed(loaded: Any) -> bool:
    """Whether the PDF may say in which colours a JPEG of the page is coded, where the JPEG says otherwise."""
    if not loaded.parent.is_pdf or _is_marked(loaded):
        return True
    return any(_TRANSFORM.search(loaded.parent.xref_object(image[0])) for image in loaded.get_images())


def _watched(drawing: Any) -> _Watcher:
    watcher = _Watcher()
    _run(drawing, watcher, watcher.cookie)
    return watcher


def _run(drawing: Any, device: Any, cookie: Any) -> None:
    everywhere = _mupdf.FzRect(_mupdf.FzRect.Fixed_INFINITE)
    _mupdf.fz_run_display_list(drawing.this, device, _mupdf.FzMatrix(), everywhere, cookie)
    _mupdf.fz_close_device(device)


class _Collector(_mupdf.FzDevice2):  # type: ignore[misc, name-defined]
    """Device that notes pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.use_virtual_fill_image()
        self.placed: list[Placed] = []

    def fill_image(self, _: Any, image: Any, ctm: Any, *__: Any) -> None:
        kept = _mupdf.FzImage(_mupdf.ll_fz_keep_image(image))
        self.placed.append(Placed(kept, (ctm.a, ctm.b, ctm.c, ctm.d, ctm.e, ctm.f)))


class _Watcher(_Collector):
    """Device that notes pictures, and stops at the first thing that is drawn and is none."""

    def __init__(self) -> None:
        for name in _DRAWS:
            setattr(self, name, self._draws)
        for name in _CHANGES:
            setattr(self, name, self._changes)
        super().__init__()
        for name in (*_DRAWS, *_CHANGES, "clip_path", "set_default_colorspaces"):
            getattr(self, f"use_virtual_{name}")()
        self.cookie = _mupdf.FzCookie()
        self.clips: list[Any] = []
        self.shows_more = self.is_changed = False
        self.spaces: Any = None

    def fill_image(self, _: Any, image: Any, ctm: Any, alpha: float = 1.0, *__: Any) -> None:
        super().fill_image(_, image, ctm)
        self.is_changed |= alpha < 1

    def clip_path(self, _: Any, path: Any, __: int, ctm: Any, *___: Any) -> None:
        self.is_changed |= not _mupdf.ll_fz_path_is_rect(path, ctm)
        box = _mupdf.ll_fz_bound_path(path, None, ctm)
        self.clips.append(pymupdf.Rect(box.x0, box.y0, box.x1, box.y1))

    def set_default_colorspaces(self, _: Any, spaces: Any) -> None:
        self.spaces = _mupdf.FzDefaultColorspaces(_mupdf.ll_fz_keep_default_colorspaces(spaces))

    def _draws(self, *_: Any) -> None:
        self.shows_more = True
        self.cookie.m_internal.abort = 1

    def _changes(self, *_: Any) -> None:
        self.is_changed = True


def covers(loaded: Any) -> list[tuple[float, float, float, float]]:
    """Where text lies under a picture that is drawn after it, as boxes told from the page's corner."""
    log, corner = loaded.get_bboxlog(), loaded.rect
    texts = [(number, pymupdf.Rect(box)) for number, (kind, box) in enumerate(log) if kind.endswith("-text")]
    pictures = [(number, pymupdf.Rect(box)) for number, (kind, box) in enumerate(log) if kind == "fill-image"]
    found = []
    for number, picture in pictures[:_MAX_PICTURES]:
        later = [box for n, box in texts if n > number and box.intersects(picture)]
        for _, box in ((n, box) for n, box in texts if n < number and box.intersects(picture)):
            part = box & picture
            middle = (part.tl + part.br) / 2
            if not any(other.contains(middle) for other in later):
                found.append((part.x0 - corner.x0, part.y0 - corner.y0, part.x1 - corner.x0, part.y1 - corner.y0))
    return found


def fonts_by_name(loaded: Any) -> dict[str, object]:
    """The numbers of the page's fonts by the names that MuPDF gives to spans: several may share a name."""
    found: dict[str, tuple[int, ...]] = {}
    for number, _, _, name, *_ in loaded.get_fonts() if loaded.parent.is_pdf else ():
        plain = name.rpartition("+")[2]
        found[plain] = tuple(sorted({*found.get(plain, ()), number}))
    return dict(found)
