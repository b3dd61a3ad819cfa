"""A taskset for the tests, written with verifiers: one question, one answer, two weighted rewards."""

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: int


class SumTask(vf.Task[SumData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.75)
    async def right(self, trace) -> float:
        return float(trace.last_reply.endswith(str(self.data.answer)))

    @vf.reward(weight=0.25)
    async def bare(self, trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class SumConfig(vf.TasksetConfig):
    rows: int = 30


class Sums(vf.Taskset[SumTask, SumConfig]):
    def load(self):
        for i in range(self.config.rows):
            data = SumData(prompt=f"What is {i} + {2 * i}?", system_prompt="Add.", answer=3 * i)
            yield SumTask(data, self.config.task)


__all__ = ["Sums"]
