"""Where packages and tests lie, and which trees cannot be worked with."""

from __future__ import annotations

import pytest

from agentgym.environments.swe.sources.layout import find_layout, is_test
from agentgym.errors import DataError

INFO = (
    b"Metadata-Version: 2.1\nName: My.Pack\nVersion: 1.2\nLicense-Expression: MIT\n"
    b"Requires-Dist: attrs>=20\nRequires-Dist: hypothesis; extra == 'test'\n\nLong text\nName: other\n"
)
TEST = {"tests/test_a.py": b"def test_a(): pass\n"}


def test_src_layout() -> None:
    files = {
        "PKG-INFO": INFO,
        "src/my_pack/__init__.py": b"",
        "src/my_pack/core.py": b"x = 1\n",
        "setup.py": b"",
        **TEST,
    }
    found = find_layout(files, "my_pack-1.2")
    assert (found.name, found.version, found.license) == ("My.Pack", "1.2", "MIT")
    assert found.roots == ("src",)
    assert found.packages == ("src/my_pack",)
    assert found.sources == ("src/my_pack/__init__.py", "src/my_pack/core.py")
    assert found.tests == ("tests/test_a.py",)
    assert found.requires == ("attrs>=20",)
    assert found.allow_globs == ["src/my_pack/**/*.py"]


def test_one_module() -> None:
    found = find_layout({"parse.py": b"", "setup.py": b"", **TEST}, "parse-1", "parse", "1")
    assert (found.packages, found.roots, found.allow_globs) == (("parse.py",), (".",), ["parse.py"])


def test_a_package_of_another_name_is_found_by_top_level_txt() -> None:
    files = {"PKG-INFO": INFO, "x.egg-info/top_level.txt": b"yaml\ntests\n", "yaml/__init__.py": b"", **TEST}
    assert find_layout(files, "x").packages == ("yaml",)


def test_tests_within_the_package_and_what_is_not_mutated() -> None:
    files = {
        f"p/{name}": b""
        for name in (
            "__init__.py",
            "a.py",
            "_version.py",
            "tests/test_b.py",
            "tests/helper.py",
            "_vendor/c.py",
            "conftest.py",
        )
    }
    found = find_layout({**files, "docs/conf.py": b"", "docs/test_x.py": b""}, "p", "p", "1")
    assert found.sources == ("p/__init__.py", "p/a.py")
    assert found.tests == ("p/tests/test_b.py",)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"README": b""}, "found no Python package"),
        ({"p/__init__.py": b""}, "holds no tests"),
        ({"p/__init__.py": b"", "p/fast.pyx": b"", **TEST}, "not pure Python, it compiles p/fast.pyx"),
        ({"p/__init__.py": b"", "p/_speed.c": b"", **TEST}, "p/_speed.c"),
        ({"p/__init__.py": b"", "Cargo.toml": b"", **TEST}, "Cargo.toml"),
        ({"p/__init__.py": b"", "setup.py": b"setup(ext_modules=[Extension('p')])", **TEST}, "ext_modules"),
        ({"p/__init__.py": b"", "setup.py": b"setup(ext_modules=cythonize('p'))", **TEST}, "ext_modules"),
        ({"p/tests/__init__.py": b"", "p/__init__.py": b"", "p/_version.py": b"", "p/tests/test_a.py": b""}, ""),
    ],
)
def test_refusals(files: dict[str, bytes], said: str) -> None:
    if not said:
        assert find_layout(files, "p", "p", "1").sources == ("p/__init__.py",)
        return
    with pytest.raises(DataError, match=r"^p-1: ") as caught:
        find_layout(files, "p-1", "p", "1")
    assert said in str(caught.value)


def test_extensions_that_are_none() -> None:
    for setup in (b"setup(ext_modules=[])", b"setup(ext_modules=None)", b"# no extensions"):
        find_layout({"p/__init__.py": b"", "setup.py": setup, **TEST}, "p", "p", "1")


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("tests/a.py", True),
        ("p/testing/a.py", True),
        ("conftest.py", True),
        ("test_a.py", True),
        ("p/a_test.py", True),
        ("p/tests.py", True),
        ("p/attest.py", False),
        ("p/latest/a.py", False),
        ("p/contest.py", False),
    ],
)
def test_what_is_a_test(path: str, wanted: bool) -> None:
    assert is_test(path) is wanted
