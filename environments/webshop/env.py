"""WebShop: find and buy the product that an instruction asks for, in a text-mode shop."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.environments import _games
from agentgym.environments._paths import path_option
from agentgym.environments.webshop.data import check_size, data_files
from agentgym.environments.webshop.expert import Expert
from agentgym.environments.webshop.generated import GENERATED_SPLITS
from agentgym.environments.webshop.goals import ORDER_SEED, PRICINGS
from agentgym.environments.webshop.products import Catalogue
from agentgym.environments.webshop.progress import Progress
from agentgym.environments.webshop.shop import DONE, INDEX, MODES, Pages, Shop, State
from agentgym.environments.webshop.tasks import ALL_SPLITS, CATEGORY_NAMES, Source, split_tasks, world_of
from agentgym.errors import ConfigError, EnvironmentFault, unknown
from agentgym.types import Observation, Step, Task, TaskSet

_HELP: Final = (
    "Actions: search[KEYWORDS] looks for products; click[TEXT] clicks a button, a product's id or an option value that "
    "the page shows, for example click[b07abc1234], click[large], click[next >], click[< prev], click[back to search]. "
    "click[buy now] buys the open product with the chosen options and ends the episode. An action that is not possible "
    "leaves the page as it is."
)
#: how the admissible actions say that a search is possible
ANY_SEARCH: Final = "search[<your query>]"
_SNAPSHOT: Final = "visit, milestones reached"


class _Shelves:
    """Prepared pages by catalogue, shared by all episodes of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[tuple[int, bool], Pages] = {}

    def get(self, catalogue: Catalogue, show_attributes: bool) -> Pages:
        key = (id(catalogue), show_attributes)
        with self._lock:
            if key not in self._made or self._made[key].catalogue is not catalogue:
                if len(self._made) >= 4:
                    self._made.pop(next(iter(self._made)))
                self._made[key] = Pages(catalogue, show_attributes)
            return self._made[key]


_SHELVES: Final = _Shelves()


class WebShop(Environment):
    """A shop of text pages. Buying ends the episode; the reward is the original's score in [0, 1]; success is 1.

    ``observation``  ``text`` (default), ``text_rich``, or ``state``: ``text`` with the chosen options, which the
                     original hides; every step's info then names it
    ``products``     catalogue of the splits train, eval and test: 100, 1000 (default), 100000 or ``all``
    ``goals``        ``synthetic`` (default) or ``human``
    ``prices``       how prices within ranges and price limits are drawn: ``original`` or ``product``
    ``price_seed``   the one seed of both (default 42, the stored panel's)
    ``show_attributes``  products have an Attributes page
    ``data``         folder of the product files; default ``AGENTGYM_DATA``. The generated splits need none
    """

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="webshop",
        max_turns=15,
        thread_safe=True,
        cheap=True,
        snapshots=True,
        splits=ALL_SPLITS,
        action_help=_HELP,
        kinds=CATEGORY_NAMES,
        expert_success=0.92,  # 38 of the 500 official goals cannot be reached: docs/environments/webshop.md
        description="WebShop in text, native, exact against the original",
    )

    def __init__(
        self,
        data: str | None = None,
        observation: str = "text",
        products: int | str = "1000",
        goals: str = "synthetic",
        prices: str = "original",
        price_seed: int = 42,
        show_attributes: bool = False,
    ) -> None:
        if not isinstance(observation, str) or observation not in MODES:
            raise unknown("observation of environment 'webshop'", str(observation), MODES)
        if not isinstance(goals, str) or goals not in ORDER_SEED:
            raise unknown("goals of environment 'webshop'", str(goals), ORDER_SEED)
        if not isinstance(prices, str) or prices not in PRICINGS:
            raise unknown("prices of environment 'webshop'", str(prices), PRICINGS)
        if isinstance(price_seed, bool) or not isinstance(price_seed, int) or price_seed < 0:
            raise ConfigError(f"environment 'webshop': price_seed must be an integer >= 0, got {price_seed!r}")
        if not isinstance(show_attributes, bool):
            raise ConfigError(f"environment 'webshop': show_attributes must be true or false, got {show_attributes!r}")
        folder = path_option("webshop", "data", data)
        self._source = Source(folder, check_size(products), goals, prices, price_seed)
        self._mode = observation
        self._show = show_attributes
        self._shop: Shop | None = None
        self._task: Task | None = None

    def tasks(self, split: str = "train", **options: Any) -> TaskSet:
        """The tasks of a split in a fixed order. Options: ``kinds`` (categories), ``n`` (so many, by ``seed``)."""
        for name in options:
            if name not in ("kinds", "n", "seed"):
                raise unknown(f"option of WebShop split {split!r}", name, ("kinds", "n", "seed"))
        return split_tasks(split, self._source, **options)

    @classmethod
    def data_files(
        cls, tasks: Sequence[Task], data: str | None = None, products: int | str = "1000", **_: Any
    ) -> list[Path]:
        """The catalogue's files; the generated one has none."""
        generated = all(task.split in GENERATED_SPLITS for task in tasks)
        return [] if generated else data_files(check_size(products), data)

    def reset(self, task: Task) -> Observation:
        """Open the shop's first page with the task's instruction."""
        if task.env != self.spec.name:
            raise EnvironmentFault(f"environment 'webshop' got a task of environment {task.env!r}: {task.name!r}")
        catalogue, goal, prices = world_of(task, self._source.data)
        shared = _SHELVES.get(catalogue, self._show)
        self._shop = Shop(shared, goal, prices, self._mode, task.seed)
        self._task = task
        self._progress = Progress(self._shop)
        self._expert = Expert(self._shop)
        self.milestone_names = self._progress.names
        return self._observation()

    def _running(self) -> Shop:
        if self._shop is None:
            raise EnvironmentFault("environment 'webshop': reset(task) must come first")
        return self._shop

    def _observation(self) -> Observation:
        shop = self._running()
        actions = [f"click[{name}]" for name in shop.buttons if name != "search"]
        if shop.state.kind == INDEX:
            actions.append(ANY_SEARCH)
        return Observation(shop.text, actions)

    @property
    def clickables(self) -> tuple[str, ...]:
        """What can be clicked, as the original's ``get_available_actions`` lists it."""
        return self._running().buttons

    @property
    def has_search_bar(self) -> bool:
        """The page shows a search bar; a search works from every page nevertheless."""
        return self._running().state.kind == INDEX

    def step(self, action: str) -> Step:
        """Execute one action; after the purchase ``info`` holds the breakdown of the reward."""
        shop = self._running()
        if shop.state.kind == DONE:
            name = self._task.name if self._task else ""
            raise EnvironmentFault(f"webshop task {name!r}: the purchase is made and the episode is over; reset first")
        grounded = shop.act(action)
        if grounded:
            self._progress.update()
        score = shop.state.score
        if score is None:
            named = {"observation": self._mode} if self._mode == "state" else None
            return Step(self._observation(), grounded=grounded, milestones=self._progress.reached, info=named)
        return Step(
            self._observation(),
            reward=score,
            terminated=True,
            success=score == 1.0,
            milestones=self._progress.reached,
            info={**shop.info, "observation": self._mode},
        )

    def expert(self) -> str | None:
        """The next action of a way that buys the goal's product; None after the purchase."""
        self._running()
        return self._expert.advise()

    def snapshot(self) -> Any:
        """The present state; immutable and picklable, valid in any instance that has been reset to the same task."""
        shop = self._running()
        return (self._task.id if self._task else "", shop.state, self._progress.reached)

    def restore(self, state: Any) -> Observation:
        """Go back to a snapshot of this task."""
        shop = self._running()
        visit, reached = _games.snapshot_fields("webshop", state, self._task, _SNAPSHOT)
        if not isinstance(visit, State) or not isinstance(reached, tuple):
            raise _games.bad_snapshot("webshop", state, _SNAPSHOT)
        shop.restore(visit)
        self._progress.reached = reached
        return self._observation()

    def close(self) -> None:
        """Nothing to free; the next step needs a reset."""
        self._shop = None
