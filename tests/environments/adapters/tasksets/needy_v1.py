"""A taskset for the tests whose tasks need what a conversation has not; ``what`` says which."""

import verifiers.v1 as vf


class Config(vf.TasksetConfig):
    what: str = ""


class Boxed(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def ran(self, trace, runtime) -> float:
        return 1.0


class Stopped(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.stop
    async def enough(self, trace) -> bool:
        return True


class Prepared(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    async def setup(self, trace, runtime) -> None:
        await runtime.write("/tmp/x", b"")


class Fails(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def broken(self, trace) -> float:
        raise ZeroDivisionError("no score")


KINDS = {"boxed": Boxed, "stopped": Stopped, "prepared": Prepared, "fails": Fails, "image": Fails}


class Needy(vf.Taskset[vf.Task, Config]):
    def load(self):
        image = "debian" if self.config.what == "image" else None
        yield KINDS[self.config.what](vf.TaskData(prompt="Do it.", image=image), self.config.task)


__all__ = ["Needy"]
