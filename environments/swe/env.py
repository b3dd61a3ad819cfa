"""Software engineering behind the environment contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments.swe import expert as expert_
from agentgym.environments.swe import image
from agentgym.environments.swe.actions import SENTINEL, Call, parse
from agentgym.environments.swe.bench import Bench, edit
from agentgym.environments.swe.facts import Facts
from agentgym.environments.swe.graders import grader
from agentgym.environments.swe.options import SPLITS, Options
from agentgym.environments.swe.schema import SWETask
from agentgym.environments.swe.tasks import EMBEDDED, Dataset, dataset, loaded, split_tasks
from agentgym.environments.swe.texts import HELP, after_bash, cut, introduction, verdict_text, without_times
from agentgym.errors import EnvironmentFault
from agentgym.sandbox import SandboxError
from agentgym.sandbox.grading import Verdict
from agentgym.types import Observation, Step, Task, TaskSet

#: recipe settings that these tasks need where a recipe says nothing
_RECIPE: Final[Mapping[str, Mapping[str, Any]]] = {
    "format": {"action_tag": "", "max_action": 100_000},
    "limits": {"max_response_tokens": 4096, "step_timeout": 900.0, "reset_timeout": 300.0},
}


class SWE(Environment):
    """A repository with a bug, its issue, a shell and an edit tool; hidden tests decide. Success: resolved.

    ``dataset``          ``mini`` (embedded), or the path of a file of tasks
    ``unmarked``         the split, ``train`` or ``test``, of a file's tasks that say none themselves
    ``backend``          of the sandboxes: ``auto``, ``bubblewrap``, ``docker``, or ``unsafe-local`` with
                         ``unsafe_local=true``
    ``command_timeout``  seconds a command may take; ``memory_mb``, ``pids``: what it may use
    ``head``, ``tail``   characters of a long observation that are shown
    ``strict``           a submission that the grader flags is not resolved; false: flags are only recorded
    ``second_run``       grade twice, the second time in disguise between canaries
    ``image_mounts``     host path -> path inside, read-only, for containers of image tasks
    ``reproduce``        find out whether a failing command reproduces the bug (runs it once more)
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="swe",
        max_turns=40,
        thread_safe=True,
        cheap=False,
        snapshots=False,
        splits=SPLITS,
        action_help=HELP,
        recipe=_RECIPE,
        description="Software issues in a sandboxed repository, graded by hidden tests; sixteen embedded tasks",
    )

    def __init__(
        self,
        dataset: str = EMBEDDED,
        backend: str = "auto",
        command_timeout: float = 60.0,
        memory_mb: int = 512,
        pids: int = 64,
        head: int = 5000,
        tail: int = 5000,
        strict: bool = True,
        second_run: bool = True,
        reproduce: bool = True,
        unmarked: str = "test",
        unsafe_local: bool = False,
        image_mounts: Mapping[str, str] | None = None,
    ) -> None:
        self._options = Options(
            dataset, unmarked, backend, command_timeout, memory_mb, pids, head, tail, strict, second_run, reproduce,
            unsafe_local, tuple(sorted((image_mounts or {}).items())),
        )  # fmt: skip
        self._task: Task | None = None
        self._bench: Bench | None = None
        self._over = False

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The tasks of a split in the file's order. ``limit``, ``names`` (instance ids) and ``kind`` choose some."""
        return split_tasks(dataset(self._options.dataset), split, self._options.unmarked, **options)

    def reset(self, task: Task) -> Observation:
        """Hand the repository over as one commit, and show the issue."""
        self.close()
        if task.env != self.spec.name:
            raise EnvironmentFault(f"environment 'swe' got a task of environment {task.env!r}: {task.name!r}")
        data = dataset(self._options.dataset)
        row = data.find(task)
        try:
            self._begin(row, data)
        except SandboxError as error:
            self.close()
            raise EnvironmentFault(f"swe task {task.name!r}: the sandbox failed: {error}") from error
        self._task, self._over = task, False
        return Observation(introduction(row, self._running().box.workspace))

    def _begin(self, row: SWETask, data: Dataset) -> None:
        options = self._options
        if row.env.image:
            found = self._loaded = image.image_task(options, row.model_dump_json())
        else:
            found = self._loaded = loaded(data, row.instance_id)
        graded = found.graded
        self._facts = Facts(graded.base, graded.gold, options.reproduce and not row.env.image)
        self.milestone_names = self._facts.names
        self._expert = expert_.Plan(found)
        if row.env.image:
            self._bench = image.ImageBench(options, row)
        else:
            self._bench = Bench(grader(options, row).host, graded.base, graded.pythonpath, options.limits())

    def _running(self) -> Bench:
        if self._bench is None:
            raise EnvironmentFault("environment 'swe': reset(task) must come first")
        return self._bench

    def step(self, action: str) -> Step:
        """Run a command, edit, or submit, which ends the episode."""
        if self._over:
            raise EnvironmentFault("environment 'swe': the episode is over; reset first")
        bench, call = self._running(), parse(action)
        if call.problem:
            return self._answer(f"That is no valid action: {call.problem}.\n\n{HELP}", valid=False, executed=False)
        try:
            if call.tool == "submit":
                return self._submit(bench)
            step = self._edit(bench, call) if call.tool == "edit" else self._bash(bench, call)
        except SandboxError as error:
            raise EnvironmentFault(f"swe task {self._name}: the sandbox failed: {error}") from error
        self._expert.done(action)
        return step

    @property
    def _name(self) -> str:
        return repr(self._task.name) if self._task else "?"

    def _edit(self, bench: Bench, call: Call) -> Step:
        done = edit(bench.editor, call.arguments)
        return self._answer(done.text, executed=done.ok, info={"tool": "edit", "path": done.path})

    def _bash(self, bench: Bench, call: Call) -> Step:
        command = call.arguments["command"]
        result = bench.bash(command)
        if result.exit_code == 0 and result.output.lstrip().startswith(SENTINEL):
            return self._submit(bench)
        step = self._answer(
            after_bash(result), executed=result.killed is None, info={"tool": "bash", "exit_code": result.exit_code}
        )
        if self._facts.reproduce:
            found = self._facts.look_for_failure(bench, command, result, self._options.command_timeout)
            assert step.info is not None
            step.info["rewards"]["reproduced"] = found
            step.milestones = self._facts.milestones
        return step

    def _answer(self, text: str, *, executed: bool, valid: bool = True, info: Mapping[str, Any] | None = None) -> Step:
        rewards = self._facts.turn(self._running(), valid, executed)
        shown = cut(text, self._options.head, self._options.tail)
        return Step(
            Observation(shown, state_key=without_times(shown)),
            grounded=executed,
            milestones=self._facts.milestones,
            info={**(info or {}), "rewards": rewards},
        )

    def _submit(self, bench: Bench) -> Step:
        verdict = self._grade(bench)
        rewards = self._facts.submitted(verdict)
        self._over = True
        bench.close()
        record = verdict.to_dict()
        del record["seconds"]  # what is in a step is the same each time
        return Step(
            Observation(verdict_text(verdict)),
            reward=float(verdict.resolved),
            terminated=True,
            success=verdict.resolved,
            milestones=self._facts.milestones,
            info={"tool": "submit", "rewards": rewards, "patch": record.pop("patch"), "verdict": record},
        )

    def _grade(self, bench: Bench) -> Verdict:
        graded = self._loaded.graded
        try:
            tree = bench.export(self._loaded)
        except SandboxError as error:
            if not bench.works():
                raise
            empty = (0, len(graded.f2p), 0, len(graded.p2p))
            return Verdict(False, False, *empty, notes=(f"the workspace cannot be read: {error}",))
        if self._loaded.row.env.image:
            return image.grade(self._options, self._loaded, tree)
        return grader(self._options, self._loaded.row).grade(graded, tree)

    def comparable(self, text: str) -> str:
        """An answer without the seconds that test runs print and without addresses in memory."""
        return without_times(text)

    def expert(self) -> str | None:
        """The next action of a solution that knows the fix and the hidden tests; None at the end, and without a fix."""
        return None if self._over else self._expert.advise(self._running())

    def close(self) -> None:
        """Remove the sandbox."""
        bench, self._bench = self._bench, None
        if bench is not None:
            bench.close()
