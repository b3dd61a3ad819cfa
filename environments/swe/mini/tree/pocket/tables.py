"""Tables: lists of dictionaries with the same keys."""


def column(rows, name):
    """The values of a column."""
    return [row[name] for row in rows]


def sort(rows, *names, reverse=False):
    """Rows by the columns ``names``, the first counting most; equal rows keep their order."""
    out = sorted(rows, key=lambda row: tuple(row[name] for name in names))
    return out[::-1] if reverse else out


def group(rows, name):
    """Value of a column -> its rows, values in the order in which they come."""
    out = {}
    for row in rows:
        out.setdefault(row[name], []).append(row)
    return out


def total(rows, name, by=None):
    """The sum of a column, or with ``by`` its sum for each value of another."""
    if by is None:
        return sum(column(rows, name))
    return {value: total(some, name) for value, some in group(rows, by).items()}


def join(left, right, on):
    """Rows of ``left`` with the columns of every row of ``right`` that has the same value of ``on``."""
    index = group(right, on)
    return [{**a, **b} for a in left for b in index.get(a[on], [])]


def show(rows, names):
    """The table as text: names above, columns as wide as needed, two blanks between them."""
    cells = [list(names)] + [[str(row[name]) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)
