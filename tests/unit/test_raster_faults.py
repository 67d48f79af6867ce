"""What cannot be read fails with the right reason, takes nothing else down, and never raises."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pymupdf
import pytest
from PIL import Image

from pipeline.document import Source, uri_of_path
from pipeline.errors import ErrorCode, MachineError, PageFault
from pipeline.page import Raster
from pipeline.raster import mupdf, probe, render_pages, size_pages
from pipeline.raster import picture as picture_module
from pipeline.result import Stage, Unrendered

from .rasters import (
    AS_IS,
    BLACK,
    codes,
    failure_of,
    pdf,
    pdf_of_pages,
    picture,
    png_that_claims,
    raw_pdf,
    rendered,
    sized,
    xps,
)

needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("empty.pdf", b"", ErrorCode.EMPTY_FILE),
        ("empty", b"", ErrorCode.EMPTY_FILE),
        ("text.tif", b"this is text", ErrorCode.NOT_A_DOCUMENT),
        ("page.PDF", b"<html>404</html>", ErrorCode.NOT_A_DOCUMENT),
        ("letter.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ErrorCode.OFFICE_DOCUMENT),
        ("letter.docx", b"PK\x03\x04\x14\0", ErrorCode.BROKEN_DOCUMENT),
        ("notes.txt", b"BMW invoices, P1 first", ErrorCode.UNSUPPORTED_TYPE),
        ("cut.pdf", b"%PDF-1.7\n1 0 obj\n<<", ErrorCode.BROKEN_DOCUMENT),
        ("cut.png", b"\x89PNG\r\n\x1a\n\0\0", ErrorCode.BROKEN_DOCUMENT),
        ("cut.jpg", b"\xff\xd8\xff\xe0", ErrorCode.BROKEN_DOCUMENT),
        ("cut.tif", b"II*\0\x08\0\0\0", ErrorCode.BROKEN_DOCUMENT),
    ],
)
def test_rubbish_is_told_apart(name: str, content: bytes, code: ErrorCode, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    failure = failure_of(tmp_path / name)
    assert failure is not None
    assert failure.code == code
    assert failure.stage is Stage.DISCOVER
    assert "BufferedReader" not in failure.message


def test_a_zip_that_is_no_xps_is_no_document(tmp_path: Path):
    xps(tmp_path / "a.xps", 96, 96)
    data = (tmp_path / "a.xps").read_bytes()
    (tmp_path / "a.zip").write_bytes(data.replace(b"seq.fdseq", b"seq.other"))
    failure = failure_of(tmp_path / "a.zip")
    assert failure is not None
    assert failure.code == ErrorCode.OFFICE_DOCUMENT


def test_a_pdf_without_pages_says_so(tmp_path: Path):
    raw_pdf(tmp_path / "a.pdf", "<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[]/Count 0>>")
    failure = failure_of(tmp_path / "a.pdf")
    assert failure is not None
    assert failure.code == ErrorCode.NO_PAGES


def _protected(path: Path, **passwords: str) -> Path:
    document = pymupdf.open()
    document.new_page(width=30, height=20).draw_rect((0, 0, 15, 10), color=None, fill=BLACK)
    document.save(path, encryption=pymupdf.PDF_ENCRYPT_AES_256, **passwords)
    return path


def test_a_pdf_that_asks_for_a_password_is_encrypted(tmp_path: Path):
    failure = failure_of(_protected(tmp_path / "a.pdf", user_pw="user", owner_pw="owner"))
    assert failure is not None
    assert failure.code == ErrorCode.ENCRYPTED
    assert probe(Source(uri_of_path(str(tmp_path / "a.pdf")))).document.document_id is not None


def test_a_pdf_that_only_its_owner_may_change_opens(tmp_path: Path):
    assert codes(_protected(tmp_path / "a.pdf", owner_pw="owner")) == [None]


def test_a_broken_page_among_good_ones_fails_alone(tmp_path: Path):
    boxes = [f"/MediaBox[0 0 {width} 100]" for width in ("50", "2000000", "70")]
    path = pdf_of_pages(tmp_path / "a.pdf", *boxes)
    assert codes(path) == [None, "broken_page", None]
    failed = rendered(path)[1]
    assert isinstance(failed, Unrendered)
    assert failed.failure.stage is Stage.RASTERIZE
    assert failed.page.page_index == 1
    assert isinstance(sized(path)[1], Unrendered)


def test_a_broken_page_of_an_xps_fails_alone(tmp_path: Path):
    path = xps(tmp_path / "a.xps", 40, 28, "<FixedPage Width=")
    assert codes(path) == [None, "broken_page"]


def test_a_broken_frame_among_good_ones_fails_alone(tmp_path: Path):
    path = tmp_path / "a.tif"
    frames = [Image.fromarray(picture(40 + n, 60)) for n in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:], compression="tiff_lzw")
    with Image.open(path) as image:
        image.seek(1)
        start = image.tag_v2[273][0]
    data = bytearray(path.read_bytes())
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    assert codes(path) == [None, "broken_page", None]


def test_a_picture_cut_short_is_a_broken_page(tmp_path: Path):
    path = tmp_path / "a.png"
    Image.effect_noise((60, 40), 50).save(path)
    path.write_bytes(path.read_bytes()[:-200])
    assert codes(path) == ["broken_page"]


def test_a_picture_of_absurd_size_is_refused_before_it_is_decoded(tmp_path: Path):
    path = png_that_claims(tmp_path / "a.png", 30_000, 30_000)
    assert codes(path) == ["page_too_large"]
    (size,) = sized(path)
    assert isinstance(size, Unrendered)
    assert size.failure.code == ErrorCode.PAGE_TOO_LARGE


def test_a_pipe_is_no_file_and_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.pdf")
    failure = failure_of(tmp_path / "pipe.pdf")
    assert failure is not None
    assert failure.code == ErrorCode.NOT_A_FILE


def test_a_folder_is_no_file(tmp_path: Path):
    failure = failure_of(tmp_path)
    assert failure is not None
    assert failure.code == ErrorCode.NOT_A_FILE


@pytest.mark.parametrize("name", ["gone.pdf", "no/such/folder.pdf", "nul\0inside.pdf"])
def test_what_is_not_there_is_not_found(name: str, tmp_path: Path):
    found = probe(Source(uri_of_path(f"{tmp_path}/{name}")))
    assert found.failure is not None
    assert found.failure.code == ErrorCode.NOT_FOUND
    assert found.failure.retryable
    assert found.document.document_id is None


def test_a_broken_link_is_not_found_and_a_file_below_a_file_neither(tmp_path: Path):
    (tmp_path / "link.pdf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"x")
    for path in (tmp_path / "link.pdf", tmp_path / "file" / "below.pdf"):
        failure = failure_of(path)
        assert failure is not None
        assert failure.code == ErrorCode.NOT_FOUND


def test_a_name_too_long_for_the_system_is_unreadable(tmp_path: Path):
    failure = failure_of(tmp_path / ("x" * 300))
    assert failure is not None
    assert failure.code == ErrorCode.UNREADABLE


@needs_permissions
def test_a_file_without_permission_is_unreadable(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK))
    path.chmod(0)
    failure = failure_of(path)
    assert failure is not None
    assert failure.code == ErrorCode.UNREADABLE
    assert failure.retryable


def test_an_input_error_while_reading_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK))
    opened = os.open

    def fails(name, *arguments, **options):
        if name == str(path):
            raise OSError(5, "Input/output error")
        return opened(name, *arguments, **options)

    monkeypatch.setattr(os, "open", fails)
    failure = failure_of(path)
    assert failure is not None
    assert (failure.code, failure.message) == (ErrorCode.UNREADABLE, "Input/output error")


def test_a_source_that_is_known_to_be_unreadable_is_not_opened(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK))
    found = probe(Source(uri_of_path(str(path)), ErrorCode.UNREADABLE, "no permission"))
    assert found.failure is not None
    assert (found.failure.code, found.failure.message) == (ErrorCode.UNREADABLE, "no permission")
    assert found.document.document_id is None


@pytest.mark.parametrize("kind", ["pdf", "png"])
def test_a_file_changed_after_it_was_probed_is_not_mixed_with_what_it_was(kind: str, tmp_path: Path):
    path = tmp_path / f"a.{kind}"
    pdf(path, (30, 20, BLACK), (30, 20, BLACK)) if kind == "pdf" else Image.new("L", (9, 9)).save(path)
    document = probe(Source(uri_of_path(str(path)))).document
    path.write_bytes(path.read_bytes() + b"\n")
    made = list(render_pages(document, 0, document.page_count or 0, AS_IS))
    assert len(made) == document.page_count
    assert {str(m.failure.code) for m in made if isinstance(m, Unrendered)} == {"document_changed"}
    assert [m.page.page_index for m in made if isinstance(m, Unrendered)] == list(range(document.page_count or 0))
    with pytest.raises(PageFault, match="document_changed"):
        list(size_pages(document, AS_IS))


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_noticed(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK))
    document = probe(Source(uri_of_path(str(path)))).document
    status, data = path.stat(), path.read_bytes()
    (tmp_path / "new").write_bytes(data)
    os.utime(tmp_path / "new", ns=(status.st_atime_ns, status.st_mtime_ns))
    (tmp_path / "new").rename(path)
    (made,) = render_pages(document, 0, 1, AS_IS)
    assert isinstance(made, Unrendered)
    assert made.failure.code == ErrorCode.DOCUMENT_CHANGED


def test_a_file_that_vanished_after_it_was_probed_is_not_found(tmp_path: Path):
    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK), (30, 20, BLACK))
    document = probe(Source(uri_of_path(str(path)))).document
    path.unlink()
    made = list(render_pages(document, 0, 2, AS_IS))
    assert [str(m.failure.code) for m in made if isinstance(m, Unrendered)] == ["not_found", "not_found"]


def test_a_picture_that_cannot_be_opened_any_more_is_unreadable(tmp_path: Path):
    with pytest.raises(PageFault, match="unreadable: No such file or directory"):
        picture_module.PictureReader(str(tmp_path / "gone.png"), "image/png")


@pytest.mark.parametrize("name", ["pdf", "png"])
def test_running_out_of_memory_fails_the_page_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(*arguments):
        raise MemoryError

    monkeypatch.setattr(mupdf, "_draw", fails)
    monkeypatch.setattr(picture_module, "_flattened", fails)
    path = tmp_path / f"a.{name}"
    pdf(path, (30, 20, BLACK)) if name == "pdf" else Image.new("L", (9, 9)).save(path)
    assert codes(path) == ["out_of_memory"]


@pytest.mark.parametrize("complaint", ["malloc (432000000 bytes) failed", "code=2: calloc (9 x 1 bytes) failed"])
def test_what_the_allocator_of_mupdf_says_is_no_fault_of_the_page(
    complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*arguments):
        raise RuntimeError(complaint)

    path = pdf(tmp_path / "a.pdf", (30, 20, BLACK))
    document = probe(Source(uri_of_path(str(path)))).document
    monkeypatch.setattr(mupdf, "_draw", fails)
    (made,) = render_pages(document, 0, 1, AS_IS)
    assert isinstance(made, Unrendered)
    assert made.failure.code == ErrorCode.OUT_OF_MEMORY
    monkeypatch.setattr(mupdf, "_open", fails)
    failure = failure_of(path)
    assert failure is not None
    assert failure.code == ErrorCode.OUT_OF_MEMORY


SEEDS = {
    "a.pdf": lambda path: pdf(path, (30, 20, BLACK), (20, 20, (1, 0, 0))),
    "a.xps": lambda path: xps(path, 40, 28),
    "a.png": lambda path: Image.fromarray(picture()).save(path),
    "a.jpg": lambda path: Image.fromarray(picture()).save(path),
    "a.tif": lambda path: Image.fromarray(picture()).save(path, save_all=True, append_images=[Image.new("1", (9, 9))]),
    "a.gif": lambda path: Image.fromarray(picture()).save(path),
    "a.webp": lambda path: Image.fromarray(picture()).save(path),
    "a.bmp": lambda path: Image.fromarray(picture()).save(path),
    "a.ppm": lambda path: Image.fromarray(picture()).convert("RGB").save(path),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_damaged_file_gives_one_item_a_page_and_never_raises(name: str, tmp_path: Path):
    path, dice = tmp_path / name, Random(name)
    SEEDS[name](path)
    whole = path.read_bytes()
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(dice.choice([1, 3, 10])):
            position = dice.randrange(len(data))
            data[position : position + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        path.write_bytes(data[: dice.choice([len(data), dice.randrange(1, len(data))])])
        found = probe(Source(uri_of_path(str(path))))
        assert (found.failure is None) == (found.document.page_count is not None)
        count = min(found.document.page_count or 0, 9)
        made = list(render_pages(found.document, 0, count, AS_IS))
        assert [_index(item) for item in made] == list(range(count))


def _index(item: Raster | Unrendered) -> int:
    return item.sized.page.page_index if isinstance(item, Raster) else item.page.page_index


def _with_counts(path: Path, **counts: int) -> Path:
    """A PDF of two folders of pages, three and one, whose nodes claim other counts: `root`, `first`, `second`."""
    claims = {"root": 4, "first": 3, "second": 1, **counts}
    page = "<</Type/Page/Parent {} 0 R/MediaBox[0 0 {} 10]>>"
    bodies = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[3 0 R 4 0 R]/Count {claims['root']}>>",
        f"<</Type/Pages/Parent 2 0 R/Kids[5 0 R 6 0 R 7 0 R]/Count {claims['first']}>>",
        f"<</Type/Pages/Parent 2 0 R/Kids 9 0 R/Count {claims['second']}>>",
        *(page.format(3, width) for width in (50, 60, 70)),
        page.format(4, 80),
        "[8 0 R]",
    ]
    return raw_pdf(path, *bodies)


@pytest.mark.parametrize(
    "counts",
    [{}, {"root": 1}, {"root": 0}, {"root": -1}, {"first": 1}, {"root": 2, "first": 1, "second": 0}, {"second": 7}],
    ids=str,
)
def test_a_pdf_that_claims_fewer_pages_than_it_holds_has_all_of_them(counts: dict[str, int], tmp_path: Path):
    document = probe(Source(uri_of_path(str(_with_counts(tmp_path / "a.pdf", **counts))))).document
    assert document.page_count == 4
    made = [item for first in (0, 2) for item in render_pages(document, first, first + 2, AS_IS)]
    assert [item.sized.width_px for item in made if isinstance(item, Raster)] == [50, 60, 70, 80]


def test_a_pdf_that_claims_more_pages_than_it_holds_keeps_its_claim_and_the_rest_fails(tmp_path: Path):
    document = probe(Source(uri_of_path(str(_with_counts(tmp_path / "a.pdf", root=6))))).document
    assert document.page_count == 6
    made = list(render_pages(document, 0, 6, AS_IS))
    assert [isinstance(item, Raster) for item in made] == [True] * 4 + [False] * 2


def test_a_page_tree_with_a_cycle_is_walked_once(tmp_path: Path):
    bodies = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R 2 0 R 4 0 R]/Count 1>>",
        *["<</Type/Page/Parent 2 0 R/MediaBox[0 0 50 10]>>"] * 2,
    ]
    document = probe(Source(uri_of_path(str(raw_pdf(tmp_path / "a.pdf", *bodies))))).document
    assert document.page_count == 2


@pytest.mark.parametrize(
    "trouble",
    [
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENOSPC, "No space left"),
        ImportError("no such library"),
    ],
    ids=lambda error: type(error).__name__ + str(error.errno if isinstance(error, OSError) else ""),
)
@pytest.mark.parametrize("where", ["_open", "_draw"])
def test_what_the_machine_is_short_of_is_no_fault_of_a_document_or_page(
    trouble: Exception, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*arguments: object) -> object:
        raise trouble

    source = Source(uri_of_path(str(pdf(tmp_path / "a.pdf", (30, 20, BLACK)))))
    document = probe(source).document
    monkeypatch.setattr(mupdf, where, fails)
    work = {"_open": lambda: probe(source), "_draw": lambda: list(render_pages(document, 0, 1, AS_IS))}
    with pytest.raises(MachineError):
        work[where]()


def test_a_page_that_finds_no_memory_for_a_map_fails_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A decoder at its memory limit may say so by the number that a full machine says, too."""

    def fails(*arguments: object) -> object:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    document = probe(Source(uri_of_path(str(pdf(tmp_path / "a.pdf", (30, 20, BLACK)))))).document
    monkeypatch.setattr(mupdf, "_draw", fails)
    (made,) = render_pages(document, 0, 1, AS_IS)
    assert isinstance(made, Unrendered)
