"""Download one file over HTTP into a `.part` file, going on where an earlier attempt ended."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from paceline.errors import DataError
from paceline.workloads.data.sources.base import Progress

# To connect, and for each read: a server that says nothing for so long is given up.
TIMEOUT_S = 8.0
_PIECE_BYTES = 1 << 18


def download(url: str, part: Path, limit_bytes: int, progress: Progress) -> None:
    """Bring `part` to the full length of what is at `url`.

    Bytes already in `part` are kept if the server can send the rest, else it starts anew. If
    this ends early, by an error or by Ctrl-C, `part` stays for the next time and `progress` is
    told so. Never writes more than `limit_bytes`.
    """
    try:
        _download(url, part, limit_bytes, progress)
    except BaseException:  # Ctrl-C too
        kept_bytes = part.stat().st_size if part.exists() else 0
        if kept_bytes:
            progress(f"kept {kept_bytes:,} bytes in {part}: the next get goes on from there", 0, 0)
        else:
            part.unlink(missing_ok=True)
        raise


def _download(url: str, part: Path, limit_bytes: int, progress: Progress) -> None:
    try:
        with _open(url, part) as response:
            _receive(response, part, limit_bytes, progress)
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{_name(part)}: HTTP {error.code} {error.reason}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)  # URLError wraps what really happened
        raise DataError(f"{_name(part)}: {reason}") from error


def _open(url: str, part: Path) -> Any:
    have_bytes = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "paceline", "Accept-Encoding": "identity"}
    if not have_bytes:
        return _request(url, headers)
    try:
        response = _request(url, {**headers, "Range": f"bytes={have_bytes}-"})
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
    else:
        if response.status == http.HTTPStatus.PARTIAL_CONTENT and _starts_at(response, have_bytes):
            return response
        response.close()
    part.unlink()
    return _request(url, headers)


def _request(url: str, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - URLs are the catalogue's
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310


def _starts_at(response: Any, have_bytes: int) -> bool:
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {have_bytes}-")


def _receive(response: Any, part: Path, limit_bytes: int, progress: Progress) -> None:
    done_bytes = part.stat().st_size if part.exists() else 0
    length = response.headers.get("Content-Length")
    total_bytes = done_bytes + int(length) if length else 0
    message = f"downloading {_name(part)}"
    with part.open("ab") as stream:
        while piece := response.read(_PIECE_BYTES):
            done_bytes += len(piece)
            if done_bytes > limit_bytes:
                stream.truncate(0)
                raise DataError(f"{_name(part)}: more than {limit_bytes:,} bytes came")
            stream.write(piece)
            progress(message, done_bytes, total_bytes)
    # http.client ends a short body without a word when it is read in pieces.
    if done_bytes < total_bytes:
        raise DataError(f"{_name(part)}: ended after {done_bytes:,} of {total_bytes:,} bytes")


def _name(part: Path) -> str:
    return part.name.removesuffix(".part")
