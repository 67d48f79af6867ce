"""Documents of strangers: nothing that they name is opened, started or fetched; and a run writes to OUT alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests import documents
from tests.unit.rasters import xps
from tests.watched import Watched

ROOT = Path(__file__).resolve().parents[2]

RENDER = """
import sys
said = []
def hook(event, arguments):
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn"):
        said.append(event)
    if event in ("socket.connect", "socket.getaddrinfo", "urllib.Request"):
        said.append(event)
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & 0o1103 and arguments[0] != "/dev/null":
        said.append(f"{event} {arguments[0]} {arguments[2]}")
import hashlib, json
import pipeline.raster.mupdf, pipeline.raster.picture
from pipeline.document import Source, uri_of_path
from pipeline.page import RasterLimits, RasterRule
from pipeline.rasterizer import probe_sources, render_blocks
from pipeline.result import Unrendered
from pipeline.task import Piece
sys.addaudithook(hook)
limits, rule = RasterLimits(page_timeout_s=20, memory_bytes=1 << 30), RasterRule(72, 250_000)
told = []
for found in probe_sources([Source(uri_of_path(path)) for path in sys.argv[1:]], limits, alone=False):
    assert found.failure is None, found.failure
    told.append([])
    for block in render_blocks([Piece(found.document, 0, found.document.page_count)], rule, limits, alone=False):
        pixels = iter(block.pixels)
        for item in block.told:
            failed = isinstance(item, Unrendered)
            told[-1].append(str(item.failure.code) if failed else hashlib.sha256(next(pixels).tobytes()).hexdigest())
print(json.dumps([told, said]))
"""


def rendered(cwd: Path, *paths: Path) -> list[list[str]]:
    """For each page of each file a digest of its pixels, or its code.

    Raises:
        AssertionError: Python was asked to open a file for writing, to start a process or to reach a network.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", RENDER, *map(str, paths)]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    told, said = json.loads(done.stdout)
    assert said == []
    return list(told)


@pytest.fixture
def secrets(tmp_path: Path) -> Iterator[tuple[Path, Watched]]:
    """A folder of what a document may want: a picture as raw pixels and as PNG, a PDF, a program, a pipe."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "black.raw").write_bytes(bytes(64))
    documents.png(folder / "black.png", "secret")
    documents.pdf(folder / "secret.pdf", 1)
    (folder / "run.sh").write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    (folder / "run.sh").chmod(0o755)
    os.mkfifo(folder / "pipe")
    watched = Watched(folder)
    yield folder, watched
    watched.close()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def assert_nobody_called(server: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        server.accept()


def test_the_watch_sees_a_file_that_is_read(secrets: tuple[Path, Watched]) -> None:
    folder, watched = secrets
    assert watched.touched() == []
    subprocess.run(["cat", folder / "black.raw"], check=True, capture_output=True)
    assert "black.raw" in watched.touched()


_DRAW_8 = b"q 100 0 0 100 50 10 cm /X Do Q"
_USES_8 = "/Resources<</XObject<</X 8 0 R>>>>"
_RAW = "/Type/XObject/Subtype/Image/Width 8/Height 8/BitsPerComponent 8/ColorSpace/DeviceGray"


PLACES = (
    "/F({path})",
    "/F<</Type/Filespec/F({path})/UF({path})>>",
    "/F<</Type/Filespec/FS/URL/F(file://{path})>>",
    "/F(../secrets/{name})",
    "/F<</F({path})>>/FFilter/FlateDecode",
)
"""How an image can say that its data lie in another file (ISO 32000-1, 7.3.8.2 and 7.11)."""


@pytest.mark.parametrize("name", ["black.raw", "pipe"])
def test_pixels_that_a_pdf_wants_from_another_file_are_not_there(
    name: str, secrets: tuple[Path, Watched], tmp_path: Path
) -> None:
    folder, watched = secrets
    paths = [tmp_path / f"{number}.pdf" for number in range(1 + len(PLACES))]
    for path, place in zip(paths, ("", *PLACES), strict=True):
        image = (_RAW + place.format(path=folder / name, name=name), b"")
        documents.pdf_with_an_odd_page(path, _DRAW_8, image, entries=_USES_8)
    plain, *wanting = rendered(tmp_path, *paths)
    assert wanting == [plain] * len(PLACES)
    assert watched.touched() == []


def _active_pdf(path: Path, folder: Path, port: int) -> Path:
    """All that a PDF can ask a viewer to do, when it opens, when its page is shown, and by what stands on it."""
    script = f"app.launchURL('http://127.0.0.1:{port}/');this.exportDataObject({{cName:'a',nLaunch:2}});while(true);"
    launch = f"<</S/Launch/F({folder}/run.sh)/Unix<</F({folder}/run.sh)>>>>"
    uri = f"<</S/URI/URI(http://127.0.0.1:{port}/uri)>>"
    go_to = f"<</S/GoToR/F({folder}/secret.pdf)/D[0/Fit]>>"
    submit = f"<</S/SubmitForm/F<</FS/URL/F(http://127.0.0.1:{port}/form)>>>>"
    imports = f"<</S/ImportData/F({folder}/secret.pdf)>>"
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 120]/Contents 4 0 R"
    link = "<</Type/Annot/Subtype/Link/Rect[0 0 200 120]/A"
    resources = "/Resources<</XObject<</X 9 0 R/Y 10 0 R>>/Font<</F 11 0 R>>/ColorSpace<</C[/ICCBased 13 0 R]>>>>"
    return documents.pdf_of(
        path,
        f"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS({script})/Next[{launch}{uri}{go_to}]>>"
        f"/AA<</WC {launch}>>/AcroForm<</Fields[8 0 R]/XFA 7 0 R/NeedAppearances true>>"
        f"/Names<</JavaScript<</Names[(a)<</S/JavaScript/JS({script})>>]>>"
        "/EmbeddedFiles<</Names[(a)<</Type/Filespec/F(a.pdf)/EF<</F 6 0 R>>>>]>>>>>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"{page}{resources}/AA<</O {launch}/C {submit}>>/Annots[{link} {launch}>>{link} {uri}>>{link} {go_to}>>"
        f"{link} {submit}>>{link} {imports}>>{link}<</S/JavaScript/JS({script})>>>>8 0 R"
        f"<</Type/Annot/Subtype/Movie/Rect[0 0 9 9]/Movie<</F({folder}/black.png)/Poster true>>>>"
        f"<</Type/Annot/Subtype/FileAttachment/Rect[9 9 20 20]/FS<</F({folder}/secret.pdf)>>>>"
        f"<</Type/Annot/Subtype/Screen/Rect[9 9 20 20]/A<</S/Rendition/JS({script})>>>>]>>",
        ("", documents.MARK + b"/X Do /Y Do BT /F 20 Tf 60 60 Td (secret) Tj ET /C cs 1 scn 100 10 20 20 re f"),
        "null",
        ("/Type/EmbeddedFile/Subtype/application#2Fpdf", (folder / "secret.pdf").read_bytes()),
        ("", f"<xdp><template><field><event><script>{script}</script></event></field></template></xdp>".encode()),
        f"<</Type/Annot/Subtype/Widget/FT/Tx/T(a)/V(form)/Rect[60 5 90 20]/AA<</F<</S/JavaScript/JS({script})>>"
        f"/C<</S/JavaScript/JS({script})>>>>>>",
        (
            f"/Type/XObject/Subtype/Form/BBox[0 0 99 99]/Ref<</F({folder}/secret.pdf)/Page 0>>/F({folder}/black.raw)",
            b"",
        ),
        (f"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/OPI<</2.0<</Type/OPI/F({folder}/black.png)/Version 2.0>>>>", b""),
        "<</Type/Font/Subtype/TrueType/BaseFont/Odd/FontDescriptor 12 0 R/Encoding/WinAnsiEncoding>>",
        f"<</Type/FontDescriptor/FontName/Odd/Flags 32/FontFile2<</F({folder}/black.raw)/Length 0>>>>",
        (f"/N 1/F({folder}/black.raw)", b""),
    )


def test_a_pdf_that_wants_to_act_is_only_drawn(
    secrets: tuple[Path, Watched], server: socket.socket, tmp_path: Path
) -> None:
    folder, watched = secrets
    path = _active_pdf(tmp_path / "active.pdf", folder, server.getsockname()[1])
    watched.touched()  # its making read the PDF that it embeds
    before = _listing(tmp_path)
    ((told,),) = rendered(tmp_path, path)
    assert len(told) == 64, f"it is drawn, not {told}"
    assert watched.touched() == []
    assert _listing(tmp_path) == before
    assert_nobody_called(server)


def test_an_xps_that_wants_other_files_is_only_drawn(
    secrets: tuple[Path, Watched], server: socket.socket, tmp_path: Path
) -> None:
    folder, watched = secrets
    port, place = server.getsockname()[1], 'xmlns="http://schemas.microsoft.com/xps/2005/06"'
    sources = (f"file://{folder}/black.png", f"{folder}/black.png", "../secrets/black.png", f"{folder}/pipe")
    sources += (f"http://127.0.0.1:{port}/black.png", "../../../../../../etc/passwd")
    brush = (
        '<Path Data="M 0,0 L 40,0 40,28 0,28 Z"><Path.Fill><ImageBrush ImageSource="{0}" Viewbox="0,0,8,8"'
        ' Viewport="0,0,40,28" ViewboxUnits="Absolute" ViewportUnits="Absolute"/></Path.Fill></Path>'
        '<Glyphs FontUri="{0}" FontRenderingEmSize="10" OriginX="1" OriginY="20" UnicodeString="a" Fill="#FF000000"/>'
        '<Canvas><Canvas.Resources><ResourceDictionary Source="{0}"/></Canvas.Resources></Canvas>'
    )
    entity = f'<!DOCTYPE FixedPage [<!ENTITY e SYSTEM "file://{folder}/black.raw">]>'
    pages = [
        f'{entity}<FixedPage Width="40" Height="28" xml:lang="en" {place}>{brush.format(source)}&e;</FixedPage>'
        for source in sources
    ]
    (told,) = rendered(tmp_path, xps(tmp_path / "a.xps", 40, 28, *pages))
    assert len(told) == 1 + len(pages)
    assert len(told[0]) == 64
    assert watched.touched() == []
    assert_nobody_called(server)


# a run writes to its output


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below, with size and time of change; folders by their names alone."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found[str(path.relative_to(folder))] = (0, 0) if path.is_dir() else (status.st_size, status.st_mtime_ns)
    return found


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Ray puts sockets below it, whose names may not be long."""
    with tempfile.TemporaryDirectory(prefix="w", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize(("runner", "engine"), [("local", "fake"), ("local", "rapidocr"), ("ray", "fake")])
def test_a_run_writes_to_its_output_and_nowhere_else(runner: str, engine: str, short_folder: Path) -> None:
    root = short_folder
    for name in ("home", "tmp", "cwd", "in"):
        (root / name).mkdir()
    documents.pdf(root / "in" / "a.pdf", 2)
    documents.png(root / "in" / "b.png", "a picture")
    before, shared = _listing(root), set(Path("/dev/shm").glob("*"))
    environment = {**os.environ, "HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    for variable in [name for name in environment if name == "CI" or name.startswith(("XDG_", "ORT_"))]:
        del environment[variable]
    words = [sys.executable, str(ROOT / "run_batch.py"), str(root / "in"), str(root / "out")]
    words += ["--runner", runner, "--engine", engine, "--progress", "none"]
    done = subprocess.run(
        words, cwd=root / "cwd", env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert duckdb.sql(f"SELECT count(*) FROM '{root}/out/pages/*/*.parquet'").fetchall() == [(3,)]
    after = {name: value for name, value in _listing(root).items() if name.split("/")[0] != "out"}
    assert after == before
    assert set(Path("/dev/shm").glob("*")) <= shared
