"""The documents are true: nothing is left undocumented, links are alive, examples run."""

from __future__ import annotations

import ast
import dataclasses
import html
import json
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars
import pytest
import typer.main

import paceline.cli.run as run_command
from paceline.cli.app import app
from paceline.errors import SpecError
from paceline.outcome.results import NodeUsage, Result, WorkerTotals
from paceline.parts import PARTS, Record
from paceline.spec import RunSpec
from paceline.store.runs import RunDir
from paceline.training.schedules import SCHEDULES
from tests.commands import paceline as paceline_command
from tests.paths import EXAMPLES, ROOT

DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "paceline"
README = ROOT / "README.md"
COMMAND_LINE = DOCS / "guide" / "command-line.md"
READING_RESULTS = DOCS / "guide" / "reading-results.md"
PICTURE = DOCS / "images" / "demo.svg"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "src").rglob("*.md")])
WRONG_ON_PURPOSE = "# wrong on purpose"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    document: Path
    language: str
    options: str
    text: str

    def commands(self) -> Iterator[str]:
        """The `paceline` commands in it; in a console those behind the prompt."""
        if self.language not in {"sh", "console"}:
            return
        for line in self.text.replace("\\\n", " ").splitlines():
            command = line.removeprefix("$ ")
            is_typed = self.language == "sh" or command != line
            if is_typed and command.startswith("paceline "):
                yield command


def blocks_of(document: Path) -> list[Block]:
    fence = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [Block(document, *found) for found in fence.findall(document.read_text())]


def prose_of(document: Path) -> str:
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]
COMMANDS = list(dict.fromkeys(command for block in BLOCKS for command in block.commands()))


def leaf_commands(command=None, path=("paceline",)) -> Iterator[tuple[str, object]]:
    """Every command that does something, with its full name."""
    command = command or typer.main.get_command(app)
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    # The whole command line lists commands that are loaded when they are called.
    inside = command.loaded() if hasattr(command, "loaded") else command.commands
    for name, inner in inside.items():
        yield from leaf_commands(inner, (*path, name))


LEAVES = dict(leaf_commands())


def long_options(command) -> list[str]:
    return [option for each in command.params for option in each.opts if option.startswith("--")]


def section(name: str) -> str:
    """What command-line.md says of one command."""
    parts = re.split(r"^## (.+)$", COMMAND_LINE.read_text(), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert name in sections, f"{name_of(COMMAND_LINE)} has no section on {name}"
    return sections[name]


def is_named(word: str, text: str) -> bool:
    """Whether a word stands in code quotes, alone or before its value."""
    return re.search(rf"`{re.escape(word)}[` =]", text) is not None


def unnamed(words, text: str) -> list[str]:
    return [word for word in words if not is_named(word, text)]


def field_names(cls: type) -> list[str]:
    return [each.name for each in dataclasses.fields(cls)]


# A command that takes another's options: its section tells only of its own.
SHARES = {"paceline compare": "paceline run"}


def own_options(name: str) -> list[str]:
    shared = long_options(LEAVES[SHARES[name]]) if name in SHARES else ["--help"]
    return [option for option in long_options(LEAVES[name]) if option not in shared]


class TestCommandLine:
    @pytest.mark.parametrize("name", LEAVES)
    def test_every_command_and_option_is_documented(self, name):
        assert unnamed(own_options(name), section(name)) == []

    @pytest.mark.parametrize("name", LEAVES)
    def test_no_option_is_documented_that_is_not_there(self, name):
        told = set(re.findall(r"^- `(--[\w-]+)", section(name), flags=re.MULTILINE))
        assert told == set(own_options(name))

    def test_every_field_of_the_spec_is_documented(self):
        text = section("paceline run")
        assert unnamed([*field_names(RunSpec), *field_names(Record)], text) == []

    @pytest.mark.parametrize("catalogue", [*PARTS.values(), SCHEDULES], ids=lambda each: each.kind)
    def test_every_part_and_its_fields_are_documented(self, catalogue):
        text = section("paceline run")
        for name in catalogue.entries:
            cls, fixed = catalogue.find(name)
            assert unnamed([name, *(set(field_names(cls)) - set(fixed))], text) == []

    @pytest.mark.parametrize("name", [*PARTS["workload"].entries, *PARTS["strategy"].entries])
    def test_the_readme_says_what_there_is(self, name):
        assert is_named(name, README.read_text())


class TestLinks:
    @pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
    def test_every_relative_link_leads_somewhere(self, document):
        links = re.findall(r"\]\(([^)\s]+)\)|<img[^>]* src=\"([^\"]+)\"", prose_of(document))
        targets = [markdown or picture for markdown, picture in links]
        dead = [target for target in targets if not self.is_alive(document, target)]
        assert dead == []

    @staticmethod
    def is_alive(document: Path, target: str) -> bool:
        if re.match(r"[a-z]+:", target):
            return True
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or not file.is_relative_to(ROOT):
            return False
        return not anchor or anchor in anchors_of(file)

    def test_every_guide_and_decision_is_linked_from_its_index(self):
        assert unlinked(README, [*(DOCS / "guide").glob("*.md"), *DOCS.glob("*.md")]) == []
        index = DOCS / "decisions" / "README.md"
        assert unlinked(index, (DOCS / "decisions").glob("0*.md")) == []
        assert unlinked(DOCS / "log" / "README.md", (DOCS / "log").glob("2*.md")) == []

    @pytest.mark.parametrize("document", [*DOCUMENTS, PICTURE], ids=name_of)
    def test_no_document_knows_the_machine_it_was_written_on(self, document):
        text = document.read_text()
        places = [str(ROOT), f"{Path.home()}/", sys.prefix]
        assert [place for place in places if place in text] == []


class TestCodeMap:
    """Who reads the map finds every room, and in a room that lists its files each of them."""

    def test_every_room_is_on_the_map_and_every_file_to_read_is_there(self):
        code_map = (DOCS / "architecture.md").read_text()
        code_map = code_map[code_map.index("## Code map") : code_map.index("## The seams")]
        entries = dict(
            re.findall(
                r"^\*\*`([a-z_]+)/`\*\*(.*?)(?=^\*\*|\Z)", code_map, re.MULTILINE | re.DOTALL
            )
        )
        assert sorted(entries) == sorted(each.parent.name for each in SOURCE.glob("*/__init__.py"))
        for room, entry in entries.items():
            named = re.findall(r"`([a-z_]+\.py)`", entry)
            assert [each for each in named if not (SOURCE / room / each).exists()] == [], room

    @pytest.mark.parametrize("room", ["engine", "clusters", "clusters/agents", "comm"])
    def test_a_room_that_lists_its_files_lists_them_all(self, room):
        folder = SOURCE / room
        listed = re.findall(r"`([a-z_]+)`", ast.get_docstring(parsed(folder / "__init__.py")) or "")
        there = [each.stem for each in folder.glob("*.py") if each.stem != "__init__"]
        there += [each.parent.name for each in folder.glob("*/__init__.py")]
        assert sorted(set(listed)) == sorted(there)


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def anchors_of(document: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.+)$", prose_of(document), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def unlinked(index: Path, documents) -> list[str]:
    text = index.read_text()
    relative = [str(each.relative_to(index.parent)) for each in documents]
    return [each for each in relative if f"({each})" not in text]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> RunDir:
    """A run that leaves every kind of file."""
    folder = tmp_path_factory.mktemp("kept")
    strategy = f"{EXAMPLES / 'own_strategy.py'}:MySync"
    options = "--workers 2 --steps 60 --eval-every 20 --set workload.subset=tenth"
    settings = "--set record.loss=all --set record.monitor_s=0.05"
    run_paceline(f"paceline run logistic-mnist --strategy {strategy} {options} {settings}", folder)
    (path,) = (folder / "runs").iterdir()
    return RunDir(path)


def run_paceline(command: str, folder: Path) -> str:
    """Carry out a documented command as a user would; returns its standard output."""
    _, *arguments = shlex.split(command, comments=True)
    done = paceline_command(*arguments, cwd=folder, strict=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


class TestReadingResults:
    text = READING_RESULTS.read_text()

    @pytest.mark.parametrize("cls", [Result, NodeUsage, WorkerTotals])
    def test_every_field_of_a_result_is_documented(self, cls):
        assert unnamed(field_names(cls), self.text) == []

    def test_every_file_of_a_run_is_documented(self, kept):
        files = [f"{path.name}/" if path.is_dir() else path.name for path in kept.path.iterdir()]
        assert {"source/", "losses.parquet", "model.safetensors"} <= set(files)
        while_running = [kept.driver.name, f"{kept.records.name}/", kept._ballast.name]
        assert unnamed([*files, *while_running], self.text) == []

    @pytest.mark.parametrize("table", ["steps", "nodes", "evaluations", "losses"])
    def test_every_column_is_documented(self, kept, table):
        columns = polars.read_parquet_schema(getattr(kept, table))
        text = self.text[self.text.index("## The files of a run") :]
        assert unnamed(columns, text[text.index(f"\n`{table}.parquet`") :]) == []

    def test_every_fact_of_the_environment_is_documented(self, kept):
        assert unnamed(json.loads(kept.environment.read_text()), self.text) == []

    def test_every_tensorboard_tag_is_documented(self, kept):
        from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
        from tensorboard.compat.proto.event_pb2 import Event

        tags = {
            value.tag
            for file in kept.tensorboard.rglob("events.*")
            for raw in RawEventFileLoader(str(file)).Load()
            for value in Event.FromString(raw).summary.value
        }
        assert {"loss", "accuracy", "node/cpu_percent"} <= tags
        assert unnamed(tags, self.text[self.text.index("## TensorBoard") :]) == []


class TestCommands:
    @pytest.fixture
    def only_checked(self, monkeypatch):
        """`paceline run` up to the point where something would be started."""
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(run_command, "_carry_out", lambda table, *_: RunSpec.from_table(table))

    @pytest.mark.parametrize("command", [each for each in COMMANDS if "on purpose" not in each])
    def test_every_command_is_understood(self, command, only_checked, kept):
        name, leaf, arguments = split(command)
        arguments = [str(kept.spec) if each.endswith(".toml") else each for each in arguments]
        if name == "paceline run":
            leaf.main(arguments, standalone_mode=False)
        else:
            leaf.make_context(name, arguments)

    def test_what_is_wrong_on_purpose_fails_as_it_is_told(self, only_checked):
        told = [each for each in BLOCKS if WRONG_ON_PURPOSE in each.text]
        assert told
        for block in told:
            (command,) = block.commands()
            _, leaf, arguments = split(command)
            with pytest.raises(SpecError) as failure:
                leaf.main(arguments, standalone_mode=False)
            problems = [f"  {each}" for each in failure.value.problems]
            assert block.text.splitlines()[-len(problems) :] == problems

    def test_the_quick_ones_run_one_after_the_other(self, tmp_path):
        shutil.copytree(EXAMPLES, tmp_path / "examples")
        quick = [each for each in COMMANDS if is_quick(each)]
        assert len(quick) > 5
        for command in sorted(quick, key=lambda each: not each.startswith("paceline run")):
            output = run_paceline(command, tmp_path)
            if "--json" in command:
                json.loads(output.splitlines()[-1])

    def test_the_picture_shows_commands_that_are_understood(self, only_checked):
        prompts = [line for line in picture_lines() if line.startswith("$ ")]
        assert len(prompts) > 1
        for prompt in prompts:
            name, leaf, arguments = split(prompt.removeprefix("$ "))
            if name == "paceline run":
                leaf.main(arguments, standalone_mode=False)

    def test_the_picture_shows_what_a_run_prints(self, kept):
        printed = run_paceline(f"paceline show {kept.path}", kept.path)
        labels = [line.split("  ")[0] for line in printed.splitlines()[:5]]
        shown = "\n".join(picture_lines())
        assert [label for label in labels if label not in shown] == []


def split(command: str) -> tuple[str, object, list[str]]:
    """Find the command that a line calls; returns its name, itself and its arguments."""
    words = shlex.split(command, comments=True)
    for length in (3, 2):
        name = " ".join(words[:length])
        if name in LEAVES:
            return name, LEAVES[name], words[length:]
    raise AssertionError(f"no such command: {command}")


def is_quick(command: str) -> bool:
    """Whether it trains on the embedded data, or only looks at runs."""
    _, verb, *_ = command.split()
    return verb in {"ls", "show"} or (verb == "run" and "workload.subset=tenth" in command)


def picture_lines() -> list[str]:
    """The picture's text; pieces of one line stand at one height."""
    piece = re.compile(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')
    lines: dict[float, str] = {}
    for _, y, text in piece.findall(PICTURE.read_text()):
        lines[float(y)] = lines.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    return list(lines.values())


class TestPython:
    with_python = sorted({block.document for block in BLOCKS if block.language == "python"})

    @pytest.mark.parametrize("document", with_python, ids=name_of)
    def test_every_snippet_runs(self, document, tmp_path, monkeypatch):
        """One after the other: a later one may use what an earlier one made."""
        shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        known: dict[str, object] = {}
        for number, block in enumerate(blocks_of(document)):
            if block.language == "python" and block.options != "no-run":
                file = tmp_path / f"snippet{number}.py"
                file.write_text(block.text)
                known |= public(runpy.run_path(str(file), known, run_name="__main__"))

    def test_snippets_that_show_a_file_show_it_as_it_is(self):
        shown = [block for block in BLOCKS if block.options.startswith("file=")]
        assert {block.options for block in shown} == {
            f"file={name_of(path)}" for path in EXAMPLES.glob("*.py")
        }
        for block in shown:
            assert block.text == (ROOT / block.options.removeprefix("file=")).read_text()


def public(names: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in names.items() if not name.startswith("__")}


def test_the_example_of_a_workload_learns(tmp_path):
    command = "paceline run examples/own_workload.py:TwoMoons --epochs 3"
    assert command in COMMANDS
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    # One thread: more of them wait for each other when other tests hold the cores.
    output = run_paceline(f"{command} --set threads=1 --json", tmp_path)
    assert json.loads(output.splitlines()[-1])["test_accuracy"] > 0.85
