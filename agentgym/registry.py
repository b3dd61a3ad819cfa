"""Environments by name: built in, from an installed package's entry point, or ``module:Class``."""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from agentgym.environment import Environment, EnvironmentSpec
from agentgym.errors import AgentGymError, ConfigError, failed_code, nearest, unknown

ENTRY_POINT_GROUP = "agentgym.environments"

#: built-in environments; a new one adds its line here
BUILT_IN: dict[str, str] = {
    "alfworld": "agentgym.environments.alfworld:ALFWorld",
    "alfworld-reference": "agentgym.environments.alfworld.reference:ALFWorldReference",
    "quest": "agentgym.environments.quest:Quest",
    "keydoor": "agentgym.environments.keydoor:KeyDoor",
    "frozenlake": "agentgym.environments.frozenlake:FrozenLake",
    "sokoban": "agentgym.environments.sokoban:Sokoban",
    "minesweeper": "agentgym.environments.minesweeper:Minesweeper",
    "bandit": "agentgym.environments.bandit:Bandit",
    "countdown": "agentgym.environments.countdown:Countdown",
    "webshop": "agentgym.environments.webshop:WebShop",
    "search": "agentgym.environments.search:Search",
    "textworld": "agentgym.environments.textworld:TextWorld",
    "textworldexpress": "agentgym.environments.twx:TextWorldExpress",
    "scienceworld": "agentgym.environments.scienceworld:ScienceWorld",
    "remote": "agentgym.environments.adapters.remote:Remote",
    "gymnasium": "agentgym.environments.adapters.gymnasium:GymnasiumText",
    "textarena": "agentgym.environments.adapters.textarena:TextArena",
    "gem": "agentgym.environments.adapters.gem:Gem",
    "openenv": "agentgym.environments.adapters.openenv:OpenEnv",
    "verifiers": "agentgym.environments.adapters.verifiers:Verifiers",
    "swe": "agentgym.environments.swe:SWE",
}
#: adapters of other libraries: ``gymnasium:CliffWalking-v1`` is the class for that id
ADAPTERS: tuple[str, ...] = ("gymnasium", "textarena", "gem", "verifiers")
_registered: dict[str, str | type[Environment]] = {}


def register(name: str, target: str | type[Environment]) -> None:
    """Make ``name`` known for this process. ``target``: the class, or ``module:Class``. Re-registering replaces."""
    _registered[name] = target


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def names() -> list[str]:
    """All known names, sorted."""
    return sorted({*BUILT_IN, *_registered, *_entry_points()})


def environment_class(name: str) -> type[Environment]:
    """The class behind a name or ``module:Class``. Raises UnknownNameError with the nearest names."""
    if name in _registered:
        target = _registered[name]
        return target if isinstance(target, type) else _load(target)
    if name in BUILT_IN:
        return _load(BUILT_IN[name])
    points = _entry_points()
    if name in points:
        return _checked(points[name].load(), points[name].value)
    family, _, id = name.partition(":")
    if family in ADAPTERS and id:
        adapter: Any = _load(BUILT_IN[family])
        return _checked(adapter.named(id), name)
    if ":" in name:
        return _load(name)
    raise unknown("environment", name, names(), "Run 'agentgym envs' for all, or give module:Class.")


def _load(path: str) -> type[Environment]:
    module_name, _, class_name = path.partition(":")
    if not class_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise unknown("environment", path, names(), "Run 'agentgym envs' for all, or give module:Class.")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise AgentGymError(
                f"environment {path!r}: there is no module {error.name!r}. Is it installed, or in the current folder?"
            ) from error
        raise failed_code(f"environment {path!r}: importing {module_name!r}", error) from error
    except AgentGymError:
        raise
    except (Exception, SystemExit) as error:
        raise failed_code(f"environment {path!r}: importing {module_name!r}", error) from error
    found = getattr(module, class_name, None)
    if found is None:
        close = nearest(class_name, [n for n in vars(module) if not n.startswith("_")])
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise AgentGymError(f"environment {path!r}: module {module_name!r} has no {class_name!r}.{hint}")
    return _checked(found, path)


def _checked(found: Any, path: str) -> type[Environment]:
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise AgentGymError(f"environment {path!r} is {found!r}, expected a subclass of agentgym.Environment")
    if not isinstance(getattr(found, "spec", None), EnvironmentSpec):
        raise AgentGymError(f"environment {path!r} has no 'spec'; give the class an EnvironmentSpec")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise AgentGymError(f"environment {path!r} does not define {', '.join(missing)}, which every environment needs")
    return found


def make(name: str, **options: Any) -> Environment:
    """Make an environment. Unknown options are refused with the nearest match (ConfigError)."""
    cls = environment_class(name)
    check_options(cls, name, options)
    try:
        return cls(**options)
    except AgentGymError:
        raise
    except (Exception, SystemExit) as error:
        raise failed_code(f"environment {name!r}: its constructor", error) from error


def check_options(cls: type[Environment], name: str, options: dict[str, Any]) -> None:
    """Raise ConfigError for an option that the environment's constructor does not take."""
    parameters = (
        inspect.signature(cls.__init__).parameters
        if "__init__" in vars(cls) or cls.__init__ is not object.__init__
        else {}
    )
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    known = [p for p in parameters if p != "self"]
    for key in options:
        if key not in known:
            close = nearest(key, known)
            hint = f" Did you mean {close[0]!r}?" if close else f" It takes: {', '.join(known) or 'no options'}."
            raise ConfigError(f"environment {name!r} has no option {key!r}.{hint}")
