"""A folder on the web that holds a data set: each file as .gz, or all in the authors' archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError
from paceline.workloads.data.catalogue import Archive, DataFile
from paceline.workloads.data.checks import md5_of, wrong_md5
from paceline.workloads.data.sources import unpack
from paceline.workloads.data.sources.base import Progress
from paceline.workloads.data.sources.download import download

# What gzip may add to data that cannot be compressed, and a bit.
_GZIP_SLACK_BYTES = 1 << 16


@dataclass(frozen=True)
class Mirror:
    """One public location of a data set. Half a download stays in `part_dir`, to go on later."""

    url: str
    part_dir: Path
    archive: Archive | None = None

    @property
    def title(self) -> str:
        return self.url

    def bring(self, wanted: Sequence[DataFile], staging: Path, progress: Progress) -> None:
        """See Source. Gives up at the first file that fails: the others would fail alike."""
        if self.archive is not None:
            self._bring_archive(self.archive, wanted, staging, progress)
            return
        for file in wanted:
            limit_bytes = file.size_bytes + _GZIP_SLACK_BYTES
            zipped = self._whole(f"{file.name}.gz", file.gz_md5, limit_bytes, progress)
            try:
                unpack.gunzip(zipped, staging / file.name, file.size_bytes)
            finally:
                zipped.unlink()

    def _bring_archive(
        self, archive: Archive, wanted: Sequence[DataFile], staging: Path, progress: Progress
    ) -> None:
        packed = self._whole(archive.name, archive.md5, archive.size_bytes, progress)
        progress(f"unpacking {archive.name}", 0, 0)
        try:
            limit_bytes = max(file.size_bytes for file in wanted)
            unpack.untar(packed, [file.name for file in wanted], staging, limit_bytes)
        finally:
            packed.unlink()

    def _whole(self, name: str, md5: str, limit_bytes: int, progress: Progress) -> Path:
        """Download one file whole, and check it; what an earlier attempt left is used."""
        url = f"{self.url}/{name}"
        part = self.part_dir / f"{name}.part"
        if part.exists():
            if md5_of(part) == md5:
                return part
            download(url, part, limit_bytes, progress)
            if md5_of(part) == md5:
                return part
            progress(f"the partial download of {name} does not fit: starting again", 0, 0)
            part.unlink()
        download(url, part, limit_bytes, progress)
        if (got := md5_of(part)) != md5:
            part.unlink()
            raise DataError(f"{name}: {wrong_md5(md5, got)}")
        return part
