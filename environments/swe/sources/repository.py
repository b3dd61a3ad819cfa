"""The repository that an agent gets: one commit, made inside the sandbox, with nothing before or after it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

from agentgym.environments.swe.schema import SWETask
from agentgym.sandbox import Sandbox, SandboxError, make
from agentgym.sandbox.grading.execution import Host

_IDENTITY = "GIT_AUTHOR_{0}={1} GIT_COMMITTER_{0}={1}"
#: no configuration of the machine's, fixed names and dates: the same tree gives the same commit everywhere
_GIT = " ".join(
    [
        "export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1",
        _IDENTITY.format("NAME", "agentgym"),
        _IDENTITY.format("EMAIL", "agentgym@localhost"),
        _IDENTITY.format("DATE", "2000-01-01T00:00:00+0000"),
    ]
)
COMMIT = (
    f"{_GIT}; git init -q -b main . && git add -A -f . && git commit -q --allow-empty --no-verify -m 'Initial commit' "
    "&& rm -rf .git/hooks .git/logs && git gc -q --prune=now"
)
#: prints what lies in a repository besides one commit, line by line; nothing for a clean one
_LOOK = (
    f"{_GIT}; git rev-list --all | tail -n +2 | sed 's/^/commit /'; git remote | sed 's/^/remote /'; "
    "git for-each-ref --format='ref %(refname)' | grep -v '^ref refs/heads/main$'; "
    "git fsck --full --unreachable --no-reflogs 2>&1 | grep -E '^(unreachable|dangling|error|missing)'; "
    "find .git -name 'alternates' -o -name 'packed-refs' -size +4k; ls .git/logs 2>/dev/null; true"
)


def make_repository(box: Sandbox) -> None:
    """Commit everything in a loaded workspace, in the sandbox. Raises SandboxError with git's words."""
    result = box.run(COMMIT, 60)
    if result.exit_code:
        raise SandboxError(f"git could not commit the task's tree: {result.output[-300:].strip()}")


def history_leaks(task: SWETask, base: Mapping[str, bytes], host: Host) -> Iterable[str]:
    """What the agent's repository holds besides the base tree; nothing, or one sentence for each finding.

    Raises SandboxError where the sandbox fails.
    """
    with make(host.backend, limits=host.limits, **host.options) as box:
        box.load(base)
        make_repository(box)
        if found := box.run(_LOOK, 60).output.strip():
            yield f"the repository holds more than one commit: {' '.join(found.split())[:200]}"
        for name in {task.fix_commit, task.base_commit} - {""}:
            if not re.fullmatch(r"[0-9a-fA-F]{7,64}", name):
                continue
            if box.run(f"git cat-file -e {shlex.quote(name)}", 30).exit_code == 0:
                yield f"the commit {name} can be reached in the repository"
