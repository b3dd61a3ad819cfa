"""A taskset for the tests with an environment of its own: guess a number, told higher or lower, in four turns."""

import itertools

import verifiers.v1 as vf


class Number(vf.TaskData):
    number: int


class Guess(vf.Task[Number, vf.State, vf.TaskConfig]):
    @vf.metric
    async def turns(self, trace) -> float:
        return float(trace.num_turns)


class HigherEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class HigherEnv(vf.Env[HigherEnvConfig]):
    async def run(self, task, agents):
        won = 0.0
        async with agents.player.interaction(task) as talk:
            segment = await talk.turn()
            for left in (3, 2, 1, 0):
                guess = int(segment.last_reply) if segment.last_reply.isdigit() else -1
                if guess == task.data.number:
                    won = 1.0
                if won or not left:
                    break
                hint = "higher" if guess < task.data.number else "lower"
                segment = await talk.turn(f"{hint}, {left} left")
        talk.trace.record_reward("won", won, 1.0)


class Higher(vf.Taskset[Guess, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for i in itertools.count():
            yield Guess(Number(prompt="Guess a number from 0 to 9.", number=i * 7 % 10), self.config.task)


__all__ = ["Higher", "HigherEnv"]
