"""A tiny data set with real IDX files, and a web server on this machine that can misbehave."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from paceline.workloads.data import idx
from paceline.workloads.data.catalogue import DataFile, DataSet


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@dataclass(frozen=True)
class Tiny:
    """A data set of two files, and their right content, raw and gzipped."""

    dataset: DataSet
    raw: dict[str, bytes]
    zipped: dict[str, bytes]

    def put(self, folder: Path, *, zipped: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.raw.items():
            path = folder / (f"{name}.gz" if zipped else name)
            path.write_bytes(self.zipped[name] if zipped else content)
        return folder


@pytest.fixture
def tiny(tmp_path) -> Tiny:
    numbers = np.random.default_rng(7)
    arrays = {
        "images-idx3": numbers.integers(0, 256, (40, 28, 28), dtype=np.uint8),
        "labels-idx1": numbers.integers(0, 10, 40, dtype=np.uint8),
    }
    for name, array in arrays.items():
        idx.write(tmp_path / name, array)
    raw = {name: (tmp_path / name).read_bytes() for name in arrays}
    for name in arrays:
        (tmp_path / name).unlink()
    zipped = {name: gzip.compress(content, mtime=0) for name, content in raw.items()}
    files = tuple(
        DataFile(name, len(content), md5(content), md5(zipped[name]))
        for name, content in raw.items()
    )
    dataset = DataSet("tiny", "forty images", "none", "a homepage", 40, 0, files, urls=())
    return Tiny(dataset, raw, zipped)


@dataclass
class Web:
    """What the server serves, how it misbehaves, and what it was asked for."""

    url: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    cut_after_bytes: dict[str, int] = field(default_factory=dict)  # once each
    ranges: bool = True
    requests: list[tuple[str, str]] = field(default_factory=list)  # name, Range header


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, asked = self.path.lstrip("/"), self.headers.get("Range", "")
            web.requests.append((name, asked))
            if name not in web.content:
                self.send_error(404)
                return
            content = web.content[name]
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and web.ranges else 0
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/*")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start : web.cut_after_bytes.pop(name, len(content))])

        def log_message(self, *_args: object) -> None:
            pass

    return Handler


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(web)) as server:
        web.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield web
        server.shutdown()
        thread.join()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def progress(told):
    return lambda message, _done_bytes, _total_bytes: told.append(message)


@pytest.fixture
def tree():
    """Every file below a folder, by relative name."""
    return lambda folder: sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
