"""The edit tools: what they answer, and that no path leads out of the workspace."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.sandbox import Sandbox, SandboxError, beneath, make
from agentgym.sandbox.edit import Editor

CODE = "def f(x):\n    return x + 1\n\n\ndef g(x):\n    return x + 1\n"


@pytest.fixture
def editor(folder_sandbox: Sandbox) -> Editor:
    folder_sandbox.load({"src/a.py": CODE.encode(), "empty": b"", "crlf.txt": b"one\r\ntwo\r\n", "no_end": b"x"})
    return Editor(folder_sandbox)


def content(editor: Editor, path: str) -> str:
    return editor.sandbox.read(path).decode()


def test_view(editor: Editor) -> None:
    assert editor.view("src/a.py", 5, 6).text == "     5\tdef g(x):\n     6\t    return x + 1"
    assert editor.view("src/a.py").text.count("\n") == 5
    assert editor.view("src/a.py", 2, 99).ok
    assert editor.view("empty").text == "empty is empty"
    assert editor.view("src/a.py", 7).text == "src/a.py has lines 1 to 6; asked for 7 to 6"
    assert "src/a.py" in editor.view("").text.splitlines()
    assert editor.view("src").text.splitlines()[1:] == ["a.py"]
    assert editor.view(f"{editor.sandbox.workspace}/src/a.py").ok
    assert editor.view("nope").text == "nope: no such file or folder"


def test_view_is_bounded_and_says_where_to_go_on(editor: Editor) -> None:
    editor.sandbox.write("long", b"".join(b"%d\n" % i for i in range(10_000)))
    text = editor.view("long", 100).text
    assert text.splitlines()[0] == "   100\t99"
    assert text.splitlines()[-1] == "[... long goes on to line 10000; view it from line 500 ...]"
    editor.sandbox.write("wide", b"x" * 1_000_000 + b"\nend\n")
    assert len(editor.view("wide").text) < 2000
    editor.sandbox.write("big", bytes(3_000_000))
    assert "more than the limit" in editor.view("big").text
    editor.sandbox.load({f"many/{i}": b"" for i in range(300)})
    assert "more than 200 names" in editor.view("many").text


def test_what_a_file_hides_is_shown(editor: Editor) -> None:
    editor.sandbox.write("hidden", "if a:\u202e # }\x1b[8m secret\x00\n".encode())
    assert editor.view("hidden").text == "     1\tif a:\\u202e # }\\x1b[8m secret\\x00"


def test_create(editor: Editor) -> None:
    done = editor.create("new/deep/file.txt", "a\nb")
    assert (done.ok, done.path, done.text) == (True, "new/deep/file.txt", "created new/deep/file.txt (2 lines)")
    assert content(editor, "new/deep/file.txt") == "a\nb"
    again = editor.create("src/a.py", "gone")
    assert not again.ok
    assert "exists already" in again.text
    assert content(editor, "src/a.py") == CODE
    assert "is a file" in editor.create("src/a.py/b", "x").text
    assert not editor.create("src", "x").ok
    assert not editor.create("", "x").ok


def test_str_replace(editor: Editor) -> None:
    twice = editor.str_replace("src/a.py", "return x + 1", "return x")
    assert twice.text == "old_str stands 2 times in src/a.py (lines 2, 6); add lines until it is unique"
    assert "line 1 differs only in spaces" in editor.str_replace("src/a.py", "def  f(x):", "").text
    assert "not in src/a.py" in editor.str_replace("src/a.py", "class X", "").text
    assert "empty" in editor.str_replace("src/a.py", "", "x").text
    assert content(editor, "src/a.py") == CODE
    done = editor.str_replace("src/a.py", "def g(x):\n    return x + 1", "def g(x):\n    return x - 1")
    assert done.ok
    assert done.path == "src/a.py"
    assert "     6\t    return x - 1" in done.text
    assert content(editor, "src/a.py") == CODE[:-13] + "return x - 1\n"


def test_line_ends_and_bytes_are_kept(editor: Editor) -> None:
    assert editor.str_replace("crlf.txt", "one\ntwo", "1\n2").ok
    assert editor.sandbox.read("crlf.txt") == b"1\r\n2\r\n"
    assert editor.insert("crlf.txt", 1, "new").ok
    assert editor.sandbox.read("crlf.txt") == b"1\r\nnew\r\n2\r\n"
    editor.sandbox.write("latin", b"caf\xe9 x\n")
    assert editor.str_replace("latin", "x", "y").ok
    assert editor.sandbox.read("latin") == b"caf\xe9 y\n"
    editor.sandbox.write("run.sh", b"echo x\n", 0o755)
    assert editor.str_replace("run.sh", "x", "y").ok
    assert editor.sandbox.run("./run.sh").output == "y\n"


def test_insert(editor: Editor) -> None:
    assert editor.insert("src/a.py", 0, "import os").ok
    assert content(editor, "src/a.py").startswith("import os\ndef f")
    assert editor.insert("src/a.py", 7, "# end\n").ok
    assert content(editor, "src/a.py").endswith("+ 1\n# end\n")
    assert editor.insert("empty", 0, "x").ok
    assert content(editor, "empty") == "x\n"
    assert editor.insert("no_end", 1, "y").ok
    assert content(editor, "no_end") == "x\ny\n"
    assert editor.insert("src/a.py", 9, "x").text == "src/a.py has 8 lines; text can go below line 0 to 8, not 9"
    assert not editor.insert("src/a.py", -1, "x").ok


def test_search(editor: Editor) -> None:
    assert editor.search("return x").text == "src/a.py:2:    return x + 1\nsrc/a.py:6:    return x + 1"
    assert editor.search("d.f [fg]", "src", regex=True).text == "src/a.py:1:def f(x):\nsrc/a.py:5:def g(x):"
    assert editor.search("d.f").text == "no line holds 'd.f'"
    assert editor.search("-e").ok
    assert "'; touch hacked; '" in editor.search("'; touch hacked; '").text
    assert not editor.search("(", regex=True).ok
    assert not editor.search("x", "nope").ok
    assert not editor.search("").ok
    editor.sandbox.write("many", b"hit\n" * 1000)
    assert editor.search("hit").text.endswith("[... more than 100 lines; narrow the search ...]")
    assert "hacked" not in editor.view().text


@pytest.fixture
def trapped(folder_sandbox: Sandbox) -> Iterator[Sandbox]:
    """A workspace full of traps, some of which lead to a file of the host."""
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write("secret 4711")
        secret.flush()
        folder_sandbox.load({"plain": b"plain", "folder/x": b"x", "one": b"one"})
        folder_sandbox.run(
            f"ln -s {secret.name} link; ln -s / root; ln -s /proc/self/environ environ; ln -s /proc/self/root magic;"
            "ln -s folder inner; ln -s plain soft; mkfifo fifo; ln one two; ln -s /dev/zero zero; ln -s loop loop;"
            "ln -s link chain; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('socket')\""
        )
        yield folder_sandbox


TRAPS = [
    "../x", "folder/../../x", "/etc/passwd", "/proc/self/environ", "~/x/../..", "link", "chain", "root/etc/passwd",
    "environ", "magic/etc/passwd", "inner/x", "soft", "fifo", "two", "one", "zero", "loop", "socket", "a\0b", "n" * 300,
    "d/" * 2000 + "x", "folder", "", ".", "/", "plain/x", "link/", "root", "/dev/fd/0", "/proc/self/cwd/plain",
]  # fmt: skip


@pytest.mark.parametrize("walk", [False, True], ids=["openat2", "walk"])
def test_no_path_leads_out(trapped: Sandbox, walk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading, writing and every tool refuse every trap, and no file of the workspace or the host changes."""
    if walk:
        monkeypatch.setattr(beneath, "_have_openat2", False)
    elif not beneath._have_openat2:
        pytest.skip("this kernel has no openat2")
    editor = Editor(trapped)
    before = trapped.export()
    assert set(before) == {"plain", "folder/x"}
    for path in TRAPS:
        with pytest.raises(SandboxError):
            trapped.read(path)
        with pytest.raises(SandboxError):
            trapped.write(path, b"written")
        assert not editor.create(path, "created").ok, path
        assert not editor.str_replace(path, "s", "t").ok, path
        assert not editor.insert(path, 0, "inserted").ok, path
        shown = editor.view(path)
        assert "4711" not in shown.text
        assert not shown.ok or (path.strip("/.") in ("folder", "") and path != "/"), path
    assert trapped.export() == before
    assert "4711" not in editor.search("secret").text


def test_a_folder_that_becomes_a_link_while_it_is_used(local: Sandbox) -> None:
    """Renames in a loop between a folder and a link to the host: never a byte of the host is read."""
    with tempfile.TemporaryDirectory() as outside:
        Path(outside, "x").write_text("secret")
        local.load({"a/x": b"fine"})
        workspace = Path(local.workspace)
        (workspace / "b").symlink_to(outside)
        child = os.fork()
        if child == 0:
            try:
                os.chdir(workspace)
                while True:
                    for source, target in (("a", "c"), ("b", "a"), ("a", "b"), ("c", "a")):
                        os.rename(source, target)
            finally:
                os._exit(0)
        seen = set()
        try:
            for _ in range(800):
                with contextlib.suppress(SandboxError):
                    seen.add(local.read("a/x"))
                with contextlib.suppress(SandboxError):
                    local.write("a/y", b"written")
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert seen <= {b"fine"}
        assert os.listdir(outside) == ["x"]


def test_a_full_disk_loses_nothing(bubblewrap_works: None) -> None:
    from agentgym.sandbox import Limits

    with make("bubblewrap", limits=Limits(workspace=2**20)) as sandbox:
        sandbox.write("kept", b"old" * 1000)
        with pytest.raises(SandboxError, match="no space left"):
            sandbox.write("kept", bytes(2 * 2**20))
        assert sandbox.read("kept") == b"old" * 1000
        assert sandbox.run("ls -A").output == "kept\n"


@given(text=st.text(max_size=60), new=st.text(max_size=10), start=st.integers(0, 50), length=st.integers(1, 10))
def test_str_replace_changes_what_it_was_told_and_nothing_else(text: str, new: str, start: int, length: int) -> None:
    files: dict[str, bytes] = {"f": text.encode("utf-8", "surrogatepass")}

    class Fake:
        workspace = "/testbed"

        def relative(self, path: str) -> str:
            return path

        def read(self, path: str, limit: int = 0) -> bytes:
            return files[path]

        def write(self, path: str, data: bytes, mode: int | None = None) -> None:
            files[path] = data

    old = text[start : start + length]
    done = Editor(Fake()).str_replace("f", old, new)  # type: ignore[arg-type]
    if old and text.count(old) == 1:
        assert done.ok
        assert files["f"].decode() == text.replace(old, new)
    else:
        assert not done.ok
        assert files["f"].decode() == text
