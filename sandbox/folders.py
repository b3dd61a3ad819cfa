"""Sandboxes whose workspace is a folder of the host: the host reads and writes it without asking the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentgym.sandbox.base import MIB, READ_LIMIT, Limits, Sandbox, SandboxError
from agentgym.sandbox.workspace import Workspace


class FolderSandbox(Sandbox):
    """Files by :class:`Workspace`; ``start`` sets ``_files`` and ``close`` takes it away."""

    def __init__(self, limits: Limits | None = None, mounts: Mapping[str, str] | None = None) -> None:
        super().__init__(limits, mounts)
        self._files: Workspace | None = None

    def _started(self) -> Workspace:
        if self._files is None:
            raise SandboxError("this sandbox is not started: use it in a 'with' block, or call start()")
        return self._files

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """A regular file of the workspace."""
        return self._started().read(self.relative(path), limit)

    def write(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Write a file of the workspace."""
        self._started().write(self.relative(path), data, mode)

    def load(self, tree: Mapping[str, bytes] | Path) -> None:
        """Fill the workspace."""
        self._started().load(tree, self.relative)

    def export(
        self, select: Callable[[str], bool] | None = None, *, max_files: int = 20_000, max_bytes: int = 256 * MIB
    ) -> dict[str, bytes]:
        """Regular files of the workspace."""
        return self._started().export(select, max_files, max_bytes)

    def listing(self, path: str = "", depth: int = 2, limit: int = 500) -> list[str]:
        """Names below a folder of the workspace."""
        return self._started().listing(self.relative(path), depth, limit)
