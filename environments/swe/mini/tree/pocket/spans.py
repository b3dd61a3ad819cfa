"""Spans: half-open intervals ``(start, end)`` of numbers."""


def check(span):
    """Raise ValueError unless ``start <= end``; gives the span back."""
    start, end = span
    if start > end:
        raise ValueError(f"a span ends before it starts: {span}")
    return span


def overlap(a, b):
    """The common part of two spans, or None."""
    start, end = max(a[0], b[0]), min(a[1], b[1])
    return (start, end) if start < end else None


def merge(spans):
    """The union of ``spans`` as sorted spans that do not touch."""
    out = []
    for start, end in sorted(map(check, spans)):
        if start == end:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def gaps(spans, inside):
    """What ``spans`` leave uncovered of the span ``inside``."""
    start, end = check(inside)
    out = []
    for left, right in merge(spans):
        if right <= start or left >= end:
            continue
        if left > start:
            out.append((start, left))
        start = max(start, right)
    if start < end:
        out.append((start, end))
    return out


def length(spans):
    """The length of the union of ``spans``."""
    return sum(end - start for start, end in merge(spans))


def chunks(span, size):
    """``span`` in pieces of ``size``; the last may be shorter."""
    start, end = check(span)
    if size <= 0:
        raise ValueError(f"size must be positive, got {size}")
    out = []
    while start < end:
        out.append((start, min(start + size, end)))
        start += size
    return out
