"""Commands run apart from the host: one interface, three backends. Backends load when they are asked for.

``bubblewrap`` is the default on Linux, as root and as an ordinary user; ``docker`` runs real images; ``unsafe-local``
isolates nothing and must be asked for twice, by name and by ``unsafe_local=True``. See docs/sandbox.md.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import NamedTuple

from agentgym.errors import ConfigError, MissingDependency, nearest, unknown
from agentgym.sandbox.base import Limits, Result, Sandbox, SandboxError

__all__ = ["BACKENDS", "Backend", "Limits", "Result", "Sandbox", "SandboxError", "backends", "make"]

#: name -> (module, class). The module also has ``check() -> str``: "" where the backend works, else why not and the
#: line that fixes it. Order is that of ``auto``, which never takes unsafe-local.
BACKENDS: dict[str, tuple[str, str]] = {
    "bubblewrap": ("agentgym.sandbox.bubblewrap", "BubblewrapSandbox"),
    "docker": ("agentgym.sandbox.docker_backend", "DockerSandbox"),
    "unsafe-local": ("agentgym.sandbox.local", "LocalSandbox"),
}
_AUTO = ("bubblewrap", "docker")


class Backend(NamedTuple):
    """A backend and whether it works here. ``detail``: its mode where it works, else why not and what to do."""

    name: str
    works: bool
    detail: str


def backends() -> list[Backend]:
    """Every backend, tried on this machine (a bubblewrap run and a call to the Docker engine: well under a second)."""
    return [_try(name) for name in BACKENDS]


def _try(name: str) -> Backend:
    module_name, _ = BACKENDS[name]
    try:
        module = importlib.import_module(module_name)
        why = module.check()
    except (MissingDependency, SandboxError) as error:
        why = str(error)
    except ModuleNotFoundError as error:
        why = f"there is no module {error.name!r}"
    if why:
        return Backend(name, False, why)
    describe = getattr(module, "describe", None)
    return Backend(name, True, describe() if describe else "")


def make(
    backend: str = "auto",
    *,
    limits: Limits | None = None,
    image: str | None = None,
    mounts: Mapping[str, str] | None = None,
    **options: object,
) -> Sandbox:
    """A sandbox that is not started yet: use it as a context manager, or call ``start`` and ``close``.

    ``backend``  a name of :data:`BACKENDS`, or ``auto``: bubblewrap where it works, else Docker
    ``image``    of the container; only for ``docker``, which ``auto`` then takes
    ``mounts``   host path -> path inside, read-only
    ``options``  the backend's own; unknown ones are refused with the nearest match

    Raises SandboxError where no backend works, with each one's reason; UnknownNameError and ConfigError.
    """
    name = _choose(image) if backend == "auto" else backend
    if name not in BACKENDS:
        raise unknown("sandbox backend", name, ["auto", *BACKENDS])
    if image is not None:
        if name != "docker":
            raise ConfigError(f"sandbox backend {name!r} takes no image ({image!r}); images need backend 'docker'")
        options["image"] = image
    module_name, class_name = BACKENDS[name]
    cls = getattr(importlib.import_module(module_name), class_name)
    known = [p for p in inspect.signature(cls.__init__).parameters if p not in ("self", "limits", "mounts", "image")]
    for key in options:
        if key not in known and key != "image":
            close = nearest(key, known)
            hint = f"Did you mean {close[0]!r}?" if close else f"It takes: {', '.join(known) or 'no options'}."
            raise ConfigError(f"sandbox backend {name!r} has no option {key!r}. {hint}")
    sandbox = cls(limits=limits, mounts=mounts, **options)
    assert isinstance(sandbox, Sandbox)
    return sandbox


def _choose(image: str | None) -> str:
    """The first backend of ``auto`` that works."""
    tried = []
    for name in _AUTO if image is None else ("docker",):
        found = _try(name)
        if found.works:
            return name
        tried.append(f"{name}: {found.detail}")
    raise SandboxError("no sandbox backend works here. " + " ".join(tried) + " 'agentgym doctor' shows all.")
