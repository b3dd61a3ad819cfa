from pocket import tables

ROWS = [
    {"name": "ann", "town": "rome", "age": 40},
    {"name": "bob", "town": "oslo", "age": 30},
    {"name": "cid", "town": "rome", "age": 30},
]


def test_column():
    assert tables.column(ROWS, "age") == [40, 30, 30]


def test_sort():
    assert tables.column(tables.sort(ROWS, "age"), "name") == ["bob", "cid", "ann"]


def test_sort_two_columns():
    rows = tables.sort(ROWS, "town", "age")
    assert tables.column(rows, "name") == ["bob", "cid", "ann"]


def test_sort_reverse():
    assert tables.column(tables.sort(ROWS, "name", reverse=True), "name") == ["cid", "bob", "ann"]


def test_group():
    groups = tables.group(ROWS, "town")
    assert list(groups) == ["rome", "oslo"]
    assert tables.column(groups["rome"], "name") == ["ann", "cid"]


def test_total():
    assert tables.total(ROWS, "age") == 100


def test_total_by():
    assert tables.total(ROWS, "age", by="town") == {"rome": 70, "oslo": 30}


def test_join():
    towns = [{"town": "rome", "country": "it"}]
    rows = tables.join(ROWS, towns, "town")
    assert tables.column(rows, "name") == ["ann", "cid"]
    assert tables.column(rows, "country") == ["it", "it"]


def test_join_several():
    left, right = [{"k": 1}], [{"k": 1, "v": 1}, {"k": 1, "v": 2}]
    assert tables.column(tables.join(left, right, "k"), "v") == [1, 2]


def test_show():
    lines = tables.show(ROWS[:2], ["name", "age"]).split("\n")
    assert lines == ["name  age", "ann   40", "bob   30"]


def test_show_wide_cells():
    rows = [{"n": "a long name", "x": 1}]
    assert tables.show(rows, ["n", "x"]).split("\n") == ["n            x", "a long name  1"]
