"""Which verl this folder fits, and what to install."""

from __future__ import annotations

import importlib.metadata

from agentgym.errors import MissingDependency

#: the one version whose internals this folder was written against and tested with
VERL = "0.9.1"
#: what the trainer of verl 0.9.1 imports beside verl's own requirements (distribution, tested version)
BESIDE = {"TransferQueue": "0.1.11", "pyzmq": "", "msgspec": "", "cachetools": "", "fastapi": "", "uvicorn": ""}
INSTALL = "pip install 'agentgym-turns[verl]'"
HINT = "in a virtual environment of its own, since verl needs transformers below 5.11"


def version(distribution: str) -> str:
    """The installed version; empty: none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def require() -> None:
    """Raise MissingDependency, with the line that mends it, unless verl is there in the version that is supported."""
    found = version("verl")
    if not found:
        raise MissingDependency(f"engine=verl needs verl, which is not installed: {INSTALL} ({HINT})")
    if found != VERL:
        raise MissingDependency(
            f"engine=verl works with verl {VERL}, and verl {found} is installed: pip install 'verl=={VERL}'. The "
            "adapter uses parts of verl that change between releases, so another version is refused, not tried."
        )
    missing = [name for name in BESIDE if not version(name)]
    if missing:
        raise MissingDependency(f"engine=verl needs {', '.join(missing)} beside verl: {INSTALL} ({HINT})")
