"""Downloads from a real server on this machine: whole, interrupted, resumed, corrupt."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile

import pytest

from paceline.errors import DataError
from paceline.workloads.data import fetch
from paceline.workloads.data.catalogue import Archive
from paceline.workloads.data.sources.mirror import Mirror

IMAGES = "images-idx3.gz"


@pytest.fixture
def serve(web, tiny):
    web.content = {f"{name}.gz": content for name, content in tiny.zipped.items()}
    return web


@pytest.fixture
def get(tmp_path, tiny, progress):
    def get(*urls, archive=None):
        sources = [Mirror(url, tmp_path / "tiny", archive) for url in urls]
        return fetch.obtain(tiny.dataset, tmp_path, sources, progress)

    return get


def _contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_mirror_brings_every_file(serve, get, tiny, told):
    assert _contents(get(serve.url)) == tiny.raw
    assert f"downloading {IMAGES}" in told


def test_an_interrupted_download_goes_on_where_it_ended(serve, get, tiny, told, tmp_path):
    serve.cut_after_bytes = {IMAGES: 10_000}
    with pytest.raises(DataError, match=r"images-idx3\.gz: ended after 10,000 of"):
        get(serve.url)
    part = tmp_path / "tiny" / f"{IMAGES}.part"
    assert part.read_bytes() == tiny.zipped["images-idx3"][:10_000]
    assert f"kept 10,000 bytes in {part}: the next get goes on from there" in told
    assert [path.name for path in part.parent.iterdir()] == [part.name]

    assert _contents(get(serve.url)) == tiny.raw
    assert serve.requests[1] == (IMAGES, "bytes=10000-")


def test_another_mirror_goes_on_where_the_first_ended(serve, get, tiny):
    serve.cut_after_bytes = {IMAGES: 10_000}
    assert _contents(get(serve.url, serve.url)) == tiny.raw
    assert [asked for name, asked in serve.requests if name == IMAGES] == ["", "bytes=10000-"]


def test_a_server_that_cannot_resume_sends_it_anew(serve, get, tiny):
    serve.cut_after_bytes, serve.ranges = {IMAGES: 10_000}, False
    assert _contents(get(serve.url, serve.url)) == tiny.raw


@pytest.mark.parametrize("length", [5_000, 10_000_000])
def test_a_kept_part_that_does_not_fit_is_thrown_away(serve, get, tiny, tmp_path, length):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / f"{IMAGES}.part").write_bytes(bytes(length))
    assert _contents(get(serve.url)) == tiny.raw


def test_a_kept_part_that_is_whole_is_not_downloaded_again(serve, get, tiny, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / f"{IMAGES}.part").write_bytes(tiny.zipped["images-idx3"])
    assert _contents(get(serve.url)) == tiny.raw
    assert IMAGES not in [name for name, _ in serve.requests]


def test_wrong_content_is_refused_and_leaves_nothing(serve, get, tiny, tmp_path, tree):
    serve.content[IMAGES] = tiny.zipped["images-idx3"][::-1]
    with pytest.raises(DataError, match=r"images-idx3\.gz: content differs: md5 is \w+, should be"):
        get(serve.url)
    assert tree(tmp_path) == []


def test_a_second_mirror_makes_up_for_a_corrupt_first(serve, get, tiny):
    serve.content["bad/" + IMAGES] = b"an error page with status 200"
    assert _contents(get(f"{serve.url}/bad", serve.url)) == tiny.raw


def test_what_a_mirror_brought_before_it_failed_is_kept(serve, get, tiny, tmp_path):
    del serve.content["labels-idx1.gz"]
    with pytest.raises(DataError, match=r"1 of 2 files.*\n.*labels-idx1\.gz: HTTP 404"):
        get(serve.url)
    assert _contents(tmp_path / "tiny") == {"images-idx3": tiny.raw["images-idx3"]}


def test_a_server_that_sends_without_end_is_cut_off(serve, get, tiny, tmp_path, tree):
    serve.content[IMAGES] = bytes(2_000_000)
    with pytest.raises(DataError, match=r"more than .* bytes came"):
        get(serve.url)
    assert tree(tmp_path) == []


def test_a_refused_connection_is_a_line_that_names_the_mirror(get, tmp_path, tree):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(DataError, match=rf"tried {url}: images-idx3\.gz: .*refused"):
            get(url)
    assert tree(tmp_path) == []


def test_a_server_that_says_nothing_is_given_up(get, monkeypatch):
    monkeypatch.setattr("paceline.workloads.data.sources.download.TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DataError, match="timed out"):
            get(url)


def test_ctrl_c_keeps_only_the_part_and_says_so(serve, tiny, tmp_path, told, tree):
    def progress(message, done_bytes, _total_bytes):
        told.append(message)
        if done_bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.obtain(tiny.dataset, tmp_path, [Mirror(serve.url, tmp_path / "tiny")], progress)
    assert tree(tmp_path) == ["tiny", f"tiny/{IMAGES}.part"]
    assert told[-1].startswith("kept ")


def _tar(contents):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _archive(web, content):
    web.content["all.tar.gz"] = content
    return Archive("all.tar.gz", len(content), hashlib.md5(content).hexdigest())


def test_an_archive_is_unpacked_by_base_name_and_nothing_else_is(web, get, tiny, tmp_path, tree):
    inside = {f"../../batches/{name}": content for name, content in tiny.raw.items()}
    archive = _archive(web, _tar({**inside, "../../evil": b"not asked for"}))
    assert _contents(get(web.url, archive=archive)) == tiny.raw
    assert tree(tmp_path) == ["tiny", *sorted(f"tiny/{name}" for name in tiny.raw)]


def test_an_archive_without_a_file_says_which(web, get):
    archive = _archive(web, _tar({"readme": b"no data here"}))
    with pytest.raises(DataError, match="images-idx3: missing"):
        get(web.url, archive=archive)


def test_an_archive_cut_short_is_refused(web, get, tiny, tmp_path, tree):
    archive = _archive(web, _tar(tiny.raw)[:-3_000])
    with pytest.raises(DataError, match=r"all\.tar\.gz: archive is corrupt or cut short"):
        get(web.url, archive=archive)
    assert tree(tmp_path) == []
