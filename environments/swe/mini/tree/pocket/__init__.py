"""Small helpers: texts, spans, money, dates, a cache, tables."""

__version__ = "0.3.0"
