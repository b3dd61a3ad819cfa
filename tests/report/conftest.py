"""The browser of the report's tests."""

from __future__ import annotations

from browsers import browser, open_page  # noqa: F401
