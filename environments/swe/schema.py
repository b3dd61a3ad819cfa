"""One schema for software tasks, whatever they come from: SWE-bench's fields, and what a task without an image needs.

A row holds everything about a task but the source tree, which it either holds inline or refers to (:class:`Source`).
Base tree = the source with ``source.patch`` applied; the agent gets the base tree, the grader adds ``test_patch`` to
it, and ``patch`` is the known fix. Field names in capitals are SWE-bench's own (``princeton-nlp/SWE-bench``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agentgym.errors import DataError, nearest

Kind = Literal["sdist", "git", "inline", "image"]


def _relative(path: str) -> str:
    """A path inside the repository: relative, with ``/``, without ``..`` and empty parts."""
    parts = path.split("/")
    if not path or path.startswith("/") or "\\" in path or "\0" in path or any(p in ("", "..") for p in parts):
        raise ValueError(f"{path!r} is not a path inside the repository")
    return str(PurePosixPath(path))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Strict):
    """Where the tree of a task comes from.

    ``kind``     ``sdist``: ``name`` and ``version`` of a source distribution, ``sha256`` of its archive;
                 ``git``: ``name`` is the repository's address, ``version`` the commit;
                 ``inline``: ``files``, or ``folder`` (relative to the file of the task; its files are the tree);
                 ``image``: the tree is in the image ``env.image`` at ``/testbed``
    ``files``    inline only: path -> text
    ``patch``    a unified diff that makes the base tree of the source: an injected bug, hidden tests taken out
    """

    kind: Kind
    name: str = ""
    version: str = ""
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    files: dict[str, str] = {}
    folder: str = ""
    patch: str = ""

    @field_validator("files")
    @classmethod
    def _paths(cls, files: dict[str, str]) -> dict[str, str]:
        return {_relative(path): text for path, text in files.items()}

    @model_validator(mode="after")
    def _complete(self) -> Source:
        if self.kind == "sdist" and not (self.name and self.version):
            raise ValueError("a source of kind sdist needs name and version")
        if self.kind == "git" and not (self.name and self.version):
            raise ValueError("a source of kind git needs name (the repository) and version (the commit)")
        if self.kind == "inline" and bool(self.files) == bool(self.folder):
            raise ValueError("a source of kind inline needs either files or folder")
        if self.kind != "inline" and (self.files or self.folder):
            raise ValueError(f"a source of kind {self.kind} takes neither files nor folder")
        return self


class TaskEnv(_Strict):
    """What running the tests takes. All empty: the pinned pytest on the running interpreter.

    ``requirements``  packages the tests need, as pip writes them
    ``test_cmd``      bash command that runs the tests, for image tasks; its log is parsed (``pytest -rA``)
    ``image``         image that holds the repository at ``/testbed``
    ``setup``         bash line that goes before every command (activates an environment of the image)
    ``timeout``       seconds that one run of all tests may take
    """

    requirements: list[str] = []
    test_cmd: str = ""
    image: str = ""
    setup: str = ""
    timeout: float = Field(120.0, gt=0)


class SWETask(_Strict):
    """A software task.

    ``instance_id``        its durable name; unique in a file
    ``patch``              the known fix of the base tree, as a unified diff (SWE-smith rows: already turned round)
    ``test_patch``         brings the hidden tests into the base tree
    ``FAIL_TO_PASS``       test ids that fail on base + test_patch and pass with the fix (a list, or its JSON text)
    ``PASS_TO_PASS``       test ids that pass before and after
    ``expected``           instead of both (R2E-Gym): test name -> status of all tests with the fix
    ``test_files``         files that hold the hidden tests; never taken from the agent
    ``pythonpath``         folders of the tree to import from
    ``python``             version the tests need ("3.11"); empty: the running one
    ``allow_globs``        files that a solution may change; tests and configuration are refused whatever stands here
    ``kind``, ``split``    type for tables (``mutation``, ``pair``, ...), and the split it belongs to
    """

    instance_id: str = Field(min_length=1, pattern=r"^\S+$")
    repo: str = ""
    base_commit: str = ""
    patch: str = ""
    test_patch: str = ""
    problem_statement: str = Field(min_length=1)
    hints_text: str = ""
    created_at: str = ""
    version: str = ""
    FAIL_TO_PASS: list[str] = []
    PASS_TO_PASS: list[str] = []
    environment_setup_commit: str = ""
    difficulty: str = ""
    fix_commit: str = ""
    expected: dict[str, str] = {}
    test_files: list[str] = []
    pythonpath: list[str] = ["."]
    python: str = Field("", pattern=r"^(\d+\.\d+)?$")
    source: Source
    env: TaskEnv = TaskEnv()
    allow_globs: list[str] = ["**/*.py"]
    license: str = ""
    kind: str = ""
    split: str = ""

    @field_validator("FAIL_TO_PASS", "PASS_TO_PASS", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """SWE-bench writes the lists as JSON strings."""
        if isinstance(value, str):
            try:
                return json.loads(value)
            except json.JSONDecodeError as error:
                raise ValueError(f"neither a list nor a JSON list: {error.msg}") from error
        return value

    @field_validator("test_files", "pythonpath")
    @classmethod
    def _inside(cls, paths: list[str]) -> list[str]:
        return [_relative(path) for path in paths]

    @model_validator(mode="after")
    def _gradable(self) -> SWETask:
        if not self.FAIL_TO_PASS and not self.expected:
            raise ValueError("FAIL_TO_PASS is empty and 'expected' too: nothing could be solved")
        if both := sorted(set(self.FAIL_TO_PASS) & set(self.PASS_TO_PASS)):
            raise ValueError(f"{both[0]!r} stands in FAIL_TO_PASS and in PASS_TO_PASS")
        if self.source.kind == "image" and not self.env.image:
            raise ValueError("a source of kind image needs env.image")
        return self

    def row(self) -> dict[str, Any]:
        """As JSON, without the fields that hold their defaults."""
        return self.model_dump(exclude_defaults=True)


def parse_task(row: Mapping[str, Any], where: str = "") -> SWETask:
    """A validated task. Raises DataError that names ``where``, the task, the field, and the nearest known field."""
    if not isinstance(row, Mapping):
        raise DataError(f"{where or 'software task'}: a task is a mapping of fields, got {row!r:.80}")
    try:
        return SWETask.model_validate(dict(row))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        hint = ""
        if first["type"] == "extra_forbidden":
            close = nearest(str(first["loc"][-1]), SWETask.model_fields)
            hint = f"; did you mean {close[0]!r}?" if close else ""
        name = row.get("instance_id", "without instance_id")
        more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
        at = f"{where}: " if where else ""
        field = f"{place}: " if place else ""
        raise DataError(f"{at}software task {name!r}: {field}{first['msg']}{hint}{more}") from None


def read_tasks(path: str | Path) -> list[SWETask]:
    """The tasks of a JSON Lines file in its order. Raises DataError with file and line; ids must be unique."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # a text may hold other line ends, U+2028 for one
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"software tasks {str(path)!r} cannot be read: {error}") from error
    tasks: list[SWETask] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number}: not JSON: {error.msg}") from None
        task = parse_task(row, f"{path}:{number}")
        if task.instance_id in seen:
            raise DataError(f"{path}:{number}: {task.instance_id!r} stands in line {seen[task.instance_id]} already")
        seen[task.instance_id] = number
        tasks.append(task)
    return tasks


def task_lines(tasks: Iterable[SWETask]) -> Iterator[str]:
    """JSON Lines of tasks, with sorted keys: the same bytes for the same tasks."""
    for task in tasks:
        yield json.dumps(task.row(), sort_keys=True, ensure_ascii=False) + "\n"
