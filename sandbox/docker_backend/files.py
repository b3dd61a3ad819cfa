"""Files of a container's workspace. The engine's own copying does not see memory-backed folders, so scripts do it.

No process of the agent's runs meanwhile (the sandbox's lock), so what a script has checked stays true while it works.
Paths travel on stdin, NUL-terminated: they may hold any bytes, which the engine's JSON may not.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from agentgym.sandbox.base import SandboxError

#: ``step FILE``: refuse links on the way to a file; leaves the folder in $folder. Exit codes: see WHY
_CHECK = r"""
export LC_ALL=C
IFS= read -r -d '' path
[[ -n $path ]] || exit 21
way() {
  rest=$path; folder=.
  while [[ $rest == */* ]]; do
    folder+=/${rest%%/*}; rest=${rest#*/}
    [[ -L $folder ]] && exit 20
    [[ -e $folder ]] || { [[ $1 == make ]] && { mkdir -m 755 -- "$folder" || exit 26; } || exit 22; }
    [[ -d $folder ]] || exit 23
  done
  [[ -L $folder/$rest ]] && exit 20
  [[ -d $folder/$rest ]] && exit 21
  [[ -e $folder/$rest && ! -f $folder/$rest ]] && exit 24
  [[ ! -e $folder/$rest ]] || { links=$(stat -c %h -- "$folder/$rest"); [[ $links == 1 ]] || exit 25; }
}
"""

WHY = {
    20: "goes through a link or leaves the workspace; links are not followed",
    21: "is a folder, not a file",
    22: "no such file or folder",
    23: "a part of the path is a file, not a folder",
    24: "is not a regular file",
    25: "has several names (hard links); only files with one are opened",
    26: "a folder of the path cannot be made: no space left, or a read-only file system",
    27: "no space left in the workspace, or it may not be written",
    28: "permission denied",
}

#: stdin: path. $1: longest allowed. Writes the content, one byte more than allowed where it is too long
READ = (
    _CHECK
    + r"""
way
[[ -e $folder/$rest ]] || exit 22
[[ -r $folder/$rest ]] || exit 28
exec head -c "$(( $1 + 1 ))" < "$folder/$rest"
"""
)

#: stdin: path, mode ("" keeps), size, then the content. Moves it into place when it is whole
WRITE = (
    _CHECK
    + r"""
IFS= read -r -d '' mode; IFS= read -r -d '' size
way make
draft=$folder/.agentgym-$RANDOM$RANDOM$RANDOM
[[ -n $mode ]] || { [[ -e $folder/$rest ]] && mode=$(stat -c %a -- "$folder/$rest") || mode=644; }
head -c "$size" > "$draft" && [[ $(stat -c %s -- "$draft") == "$size" ]] && chmod -- "$mode" "$draft" &&
  mv -fT -- "$draft" "$folder/$rest" || { rm -f -- "$draft"; exit 27; }
"""
)

#: all readable regular files with one name outside .git folders, as "size path\0"
LIST = r"""
find . -mindepth 1 -maxdepth 64 -name .git -prune -o -type f -links 1 -readable -printf '%s %P\0' 2>/dev/null
exit 0
"""
#: stdin: paths; writes the files' contents one after the other
CAT = r"exec xargs -0 -r cat -- 2>/dev/null"
#: stdin: a tar archive, unpacked
UNPACK = r"exec tar -xf - --no-same-owner --no-same-permissions"


def bounded(size: int) -> str:
    """A shell line that ends stdin after ``size`` bytes: over TLS our side of a stream cannot be closed alone."""
    return f"exec < <(exec head -c {size})" if size else "exec </dev/null"


def header(path: str, *more: str) -> bytes:
    """The NUL-terminated arguments at the start of a script's stdin. Raises SandboxError for impossible file names."""
    try:
        parts = [os.fsencode(path), *(part.encode() for part in more)]
    except UnicodeEncodeError:
        raise SandboxError(f"path {path!r} cannot be encoded as a file name") from None
    if len(parts[0].rsplit(b"/", 1)[-1]) > 255:
        raise SandboxError(f"path {path[:80]!r}...: the name is too long")
    return b"".join(part + b"\0" for part in parts)


def chosen(listing: bytes, select: Callable[[str], bool] | None, max_files: int, max_bytes: int) -> dict[bytes, int]:
    """Path -> size of the files to export, sorted, out of what LIST wrote. Raises SandboxError above a bound."""
    found: dict[bytes, int] = {}
    total = 0
    for line in sorted(listing.split(b"\0"), key=lambda line: line.partition(b" ")[2]):
        size, _, path = line.partition(b" ")
        name = os.fsdecode(path)
        if not path or len(path) > 4000 or (select is not None and not select(name)):
            continue
        if not size.isdigit() or path.startswith(b"/") or b".." in path.split(b"/"):
            raise SandboxError(f"the container's list of files is damaged at {line[:200]!r}")
        if len(found) >= max_files:
            raise SandboxError(f"the workspace holds more than {max_files} files to export")
        found[path] = int(size)
        total += found[path]
        if total > max_bytes:
            raise SandboxError(f"the workspace holds more than {max_bytes} bytes to export (at {name!r})")
    return found


def split(sizes: Mapping[bytes, int], content: bytes) -> dict[str, bytes]:
    """Path -> content, out of what :data:`CAT` wrote. Raises SandboxError where the sizes do not add up."""
    if len(content) != sum(sizes.values()):
        raise SandboxError(
            f"the container gave {len(content)} bytes for files of {sum(sizes.values())}: one changed or cannot be read"
        )
    found, start = {}, 0
    for path, size in sizes.items():
        found[os.fsdecode(path)] = content[start : start + size]
        start += size
    return dict(sorted(found.items()))


def archive(tree: Mapping[str, bytes] | Path, relative: Callable[[str], str], limit: int) -> bytes:
    """A tar archive of what is to be loaded: path -> content, a folder or a tar file. Raises SandboxError."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as packed:
        add = _Adder(packed, limit)
        if isinstance(tree, Mapping):
            for path, data in tree.items():
                add(relative(path), tarfile.REGTYPE, 0o644, data)
        elif tree.is_dir():
            _add_folder(add, tree)
        elif tree.is_file():
            _add_tar(add, tree, relative)
        else:
            raise SandboxError(f"cannot load {str(tree)!r} into a sandbox: no such folder or tar file")
    return buffer.getvalue()


class _Adder:
    """Adds entries until their contents pass the workspace's size."""

    def __init__(self, packed: tarfile.TarFile, limit: int) -> None:
        self._packed, self._limit, self._total = packed, limit, 0

    def __call__(self, path: str, kind: bytes, mode: int, data: bytes = b"", link: str = "") -> None:
        self._total += len(data)
        if self._total > self._limit:
            raise SandboxError(
                f"what is to be loaded is larger than the workspace of {self._limit} bytes (at {path!r})"
            )
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(data), link
        self._packed.addfile(entry, io.BytesIO(data))


def _add_folder(add: _Adder, tree: Path) -> None:
    for folder, names, files in os.walk(tree):
        for name in sorted([*names, *files]):
            source = Path(folder, name)
            path, status = source.relative_to(tree).as_posix(), source.lstat()
            if stat.S_ISLNK(status.st_mode):
                add(path, tarfile.SYMTYPE, 0o777, link=os.readlink(source))
            elif stat.S_ISDIR(status.st_mode):
                add(path, tarfile.DIRTYPE, 0o755)
            elif stat.S_ISREG(status.st_mode):
                add(path, tarfile.REGTYPE, 0o755 if status.st_mode & 0o111 else 0o644, source.read_bytes())


def _add_tar(add: _Adder, tree: Path, relative: Callable[[str], str]) -> None:
    try:
        with tarfile.open(tree) as source:
            for member in source:
                path = relative(member.name)
                if member.isreg():
                    content = source.extractfile(member)
                    assert content is not None
                    add(path, tarfile.REGTYPE, 0o755 if member.mode & 0o111 else 0o644, content.read())
                elif member.isdir():
                    if path:
                        add(path, tarfile.DIRTYPE, 0o755)
                elif member.issym():
                    add(path, tarfile.SYMTYPE, 0o777, link=member.linkname)
                else:
                    raise SandboxError(f"{tree}: {member.name!r} is neither a file, a folder nor a symbolic link")
    except tarfile.TarError as error:
        raise SandboxError(f"{tree}: not a readable tar file ({error})") from error
