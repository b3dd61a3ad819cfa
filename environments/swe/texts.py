"""What the policy reads: the introduction, answers to commands, the end."""

from __future__ import annotations

import re
from typing import Final

from agentgym.environments.swe.schema import SWETask
from agentgym.sandbox import Result
from agentgym.sandbox.grading import Verdict

HELP: Final = """\
Think first if you like, then give exactly one action. There are three tools.

A shell command, run in the repository by a new shell each time (only files survive it; there is no network):

```bash
python -m pytest -q
```

The edit tool, with the commands view (path, view_range), create (path, file_text), str_replace (path, old_str,
new_str: old_str must stand in the file exactly once), insert (path, insert_line, insert_text) and search (query, path):

<function=edit>
<parameter=command>
str_replace
</parameter>
<parameter=path>
package/module.py
</parameter>
<parameter=old_str>
    return a - b
</parameter>
<parameter=new_str>
    return a + b
</parameter>
</function>

And submit, once the issue is resolved, which ends the task:

<function=submit></function>"""


def introduction(row: SWETask, workspace: str) -> str:
    """The first observation: the issue and the tools."""
    return (
        f"You are in the repository of a Python package, in {workspace}. Resolve the following issue by changing the "
        "package's source. Tests that you do not see will check it. Changes of tests and of configuration are ignored."
        f"\n\n<issue>\n{row.problem_statement.strip()}\n</issue>\n\n{HELP}"
    )


def after_bash(result: Result) -> str:
    """The output and how the command ended."""
    end = f"exit code {result.exit_code}"
    if result.killed == "timeout":
        end = "killed: it took too long"
    elif result.killed is not None:
        end = f"killed: too much {result.killed}"
    elif result.oom:
        end += "; a process ran out of memory"
    output = result.output.rstrip("\n")
    return f"{output}\n[{end}]" if output else f"[{end}, no output]"


def cut(text: str, head: int, tail: int) -> str:
    """``text``, in the middle of which all but the first and the last characters are left out where it is long."""
    if len(text) <= head + tail:
        return text
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[len(text) - tail :] if tail else ''}"


def verdict_text(verdict: Verdict) -> str:
    """The last observation; nobody acts on it."""
    if verdict.resolved:
        return "Submitted. The issue is resolved."
    if verdict.blocked:
        return "Submitted. Not accepted: the change does what a fix has no need for."
    passed = f"{verdict.f2p_passed} of {verdict.f2p_total} failing tests pass now"
    broken = verdict.p2p_total - verdict.p2p_passed
    return f"Submitted. Not resolved: {passed}" + (f", {broken} that passed do not." if broken else ".")


#: seconds and clock times as pytest, unittest and ``time`` print them, and addresses in the repr of objects
_VARIES: Final = re.compile(r"\b\d+\.\d+ ?s(?:econds)?\b|\b\d+m\d+\.\d+s\b|\b\d+:\d\d:\d\d\b|\b0x[0-9a-f]{6,16}\b")


def without_times(text: str) -> str:
    """``text`` with a mark in the place of durations, clock times and addresses."""
    return _VARIES.sub("<varies>", text)
