"""Files: both layouts, and what is wrong with a broken one."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from agentgym.environments.webshop import nouns
from agentgym.environments.webshop.convert import repeated
from agentgym.environments.webshop.data import load
from agentgym.errors import ConfigError, DataError, MissingDependency

RAW: list[dict[str, Any]] = [
    {
        "asin": "B0SHOE0001", "name": "Acme Loafers", "full_description": "Made for rain.", "category": "fashion",
        "query": " Loafers ", "product_category": "Shoes \u203a Loafers", "small_description": ["Soft", "Light"],
        "pricing": "$1,015.99$32.99", "images": ["x"],
        "customization_options": {"Size": [{"value": " 8/9 "}, {"value": "Large"}], "Color": None},
    },
    {
        "asin": "B0LAMP0001", "name": "Table Lamp", "full_description": "", "category": "garden", "query": "lamps",
        "product_category": "Home \u203a Lamps", "small_description": "Metal", "pricing": "", "images": ["x"],
        "customization_options": "",
    },
]  # fmt: skip
FINISHED = [
    {
        **RAW[0], "BulletPoints": ["Soft", "Light"], "Price": "$1015.99 to $32.99", "pricing": [1015.99, 32.99],
        "options": {"size": ["8 | 9", "large"]}, "Attributes": ["rubber sole"], "Rating": "N.A.", "Reviews": [],
        "query": "loafers",
    },
    {
        **RAW[1], "BulletPoints": ["Metal"], "Price": "$100.0", "pricing": [100.0], "options": {},
        "Attributes": ["DUMMY_ATTR"], "Rating": "N.A.", "Reviews": [],
    },
]  # fmt: skip
MADE = {
    "B0SHOE0001": {
        "attributes": ["rubber sole"], "instruction": "Find me loafers with rubber sole",
        "instruction_attributes": ["rubber sole"],
    }
}  # fmt: skip
NOUNS = {"B0SHOE0001": ["acme", "loafers"], "B0LAMP0001": ["table", "lamp"]}


def write(path: Path, text: str) -> None:
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())


def packed(folder: Path, rows: list[Any] | None = None, tagged: Any = NOUNS) -> Path:
    """The compact layout."""
    (folder / "webshop").mkdir(parents=True, exist_ok=True)
    shop = folder / "webshop"
    write(shop / "products_all.jsonl.xz", "\n".join(json.dumps({"product": row}) for row in rows or FINISHED))
    write(shop / "items_ins_v2.json.xz", json.dumps(MADE))
    if tagged is not None:
        write(shop / "title_nouns.json.xz", json.dumps(tagged))
    return folder


def original(folder: Path, rows: list[Any] | None = None) -> Path:
    """The original's layout."""
    folder.mkdir(exist_ok=True)
    write(folder / "items_shuffle_1000.json", json.dumps(RAW if rows is None else rows))
    write(folder / "items_ins_v2_1000.json", json.dumps(MADE))
    write(folder / "title_nouns.json", json.dumps(NOUNS))
    return folder


def test_both_layouts_make_the_same_catalogue(tmp_path: Path) -> None:
    one, other = load("all", str(packed(tmp_path / "a"))), load("1000", str(original(tmp_path / "b")))
    assert one.hash == other.hash
    shoe, lamp = other.products
    assert (shoe.prices, shoe.price_tag) == ((1015.99, 32.99), "$1015.99 to $32.99")
    assert (dict(shoe.options), shoe.query) == ({"size": ("8 | 9", "large")}, "loafers")
    assert shoe.document == "acme loafers made for rain. soft size: 8 | 9, large"
    assert (lamp.prices, lamp.price_tag, lamp.attributes, lamp.bullets) == (
        (100.0,),
        "$100.0",
        ("DUMMY_ATTR",),
        ("Metal",),
    )


def test_the_original_leaves_out_double_and_odd_ids(tmp_path: Path) -> None:
    rows = [RAW[0], {**RAW[0], "name": "Second"}, {**RAW[1], "asin": "nan"}, {**RAW[1], "asin": "B0TOOLONG001"}]
    assert [p.title for p in load("1000", str(original(tmp_path, rows))).products] == ["Acme Loafers"]


def test_human_instructions_are_read(tmp_path: Path) -> None:
    said = [{"instruction": "i want", "instruction_attributes": ["x"], "instruction_options": []}]
    folder = original(tmp_path)
    write(folder / "items_human_ins.json", json.dumps({"B0SHOE0001": said}))
    assert load("1000", str(folder)).products[0].instructions == tuple(said)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = packed(tmp_path)
    before = load("all", str(folder))
    assert load("all", str(folder)) is before
    packed(tmp_path, [{**FINISHED[0], "name": "Acme Boots"}, FINISHED[1]])
    os.utime(folder / "webshop" / "products_all.jsonl.xz", ns=(1, 1))
    assert load("all", str(folder)).products[0].title == "Acme Boots"


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTGYM_DATA", raising=False)
    with pytest.raises(DataError, match=r"AGENTGYM_DATA is not set.*'generated' needs no data"):
        load("1000", None)
    with pytest.raises(DataError, match=r"products_1000\.jsonl\.xz.*items_shuffle_1000\.json"):
        load("1000", str(tmp_path))
    with pytest.raises(DataError, match=r"items_shuffle\.json"):
        load("all", str(tmp_path))
    with pytest.raises(DataError, match=r"python -m agentgym\.environments\.webshop\.nouns"):
        load("all", str(packed(tmp_path, tagged=None)))
    with pytest.raises(DataError, match=r"title_nouns\.json\.xz: has no nouns for 1 of 2 products, first 'B0LAMP0001'"):
        load("all", str(packed(tmp_path, tagged={"B0SHOE0001": []})))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not xz at all", "damaged or truncated"),
        (lzma.compress(b'{"product": {}}')[:-9], "damaged or truncated"),
        (lzma.compress(b"\xff\xfe"), "not UTF-8"),
        (lzma.compress(b'{"product": '), "line 1: not JSON"),
        (lzma.compress(b"[" * 100_000), "line 1: not JSON"),
        (lzma.compress(b"[]"), "line 1: expected a JSON object, got list"),
        (lzma.compress(b'{"id": "x"}'), "line 1: expected an object with 'product'"),
        (lzma.compress(b'{"product": {"asin": 7}}'), "line 1: a product needs a text 'asin', got 7"),
        (lzma.compress(b""), "holds no product"),
    ],
)
def test_a_broken_pack_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    folder = packed(tmp_path)
    path = folder / "webshop" / "products_all.jsonl.xz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load("all", str(folder))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None}, {"name": "half \ud800"}, {"BulletPoints": "text"}, {"options": []}, {"options": {"size": [1]}},
        {"pricing": ["dear"]}, {"pricing": [float("nan")]}, {"pricing": [-1.0]}, {"query": 5}, {"Attributes": [None]},
    ],
)  # fmt: skip
def test_a_broken_product_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = packed(tmp_path, [FINISHED[1], {**FINISHED[0], **change}])
    with pytest.raises(DataError, match=r"line 2: product 'B0SHOE0001' is not usable"):
        load("all", str(folder))


def test_a_product_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2: product 'B0SHOE0001' occurs twice"):
        load("all", str(packed(tmp_path, [FINISHED[0], FINISHED[0]])))


@pytest.mark.parametrize("change", [{"pricing": "$many"}, {"pricing": "free"}, {"customization_options": {"a": [{}]}}])
def test_a_broken_original_product_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"items_shuffle_1000\.json, product 1: product 'B0SHOE0001' is not usable"):
        load("1000", str(original(tmp_path, [{**RAW[0], **change}])))


def test_sizes_are_known() -> None:
    from agentgym.environments.webshop import WebShop

    with pytest.raises(ConfigError, match="100, 1000, 100000, all, got 'big'"):
        WebShop(products="big")


def test_lost_repeats_of_nouns_are_counted_in_the_title() -> None:
    assert repeated(["pants", "pants(2112&cat2", "%"], "Cargo Pants pants(2112&cat2) 100% pants") == (
        "pants", "pants", "pants(2112&cat2", "%",
    )  # fmt: skip


def test_a_file_that_has_repeats_is_taken_as_it_is(tmp_path: Path) -> None:
    tagged = {"B0SHOE0001": ["acme", "acme"], "B0LAMP0001": ["lamp"]}
    assert load("all", str(packed(tmp_path, tagged=tagged))).products[0].nouns == ("acme", "acme")


def test_nouns_are_tagged_once_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = packed(tmp_path, tagged=None) / "webshop"

    def tagger() -> nouns.Tagger:
        return lambda titles: ([(word, "PROPN" if word == "Acme" else "VERB") for word in t.split()] for t in titles)

    assert nouns.main([str(folder)], tagger) == 0
    assert json.loads((folder / "title_nouns.json").read_text()) == {"B0SHOE0001": ["acme"], "B0LAMP0001": []}
    assert load("all", str(tmp_path)).products[0].nouns == ("acme",)

    def absent() -> nouns.Tagger:
        raise MissingDependency("pip install spacy")

    assert nouns.main([str(folder)], absent) == 2
    assert nouns.main([str(tmp_path / "nothing")], tagger) == 2
    assert nouns.main([], tagger) == 2
    assert "pip install spacy" in capsys.readouterr().err


def test_a_pack_holds_as_many_records_as_its_name_states(tmp_path: Path) -> None:
    shop = tmp_path / "webshop"
    shop.mkdir()
    ids = [f"B{number:09d}" for number in range(100)]
    write(shop / "title_nouns.json", json.dumps({asin: ["lamp"] for asin in ids}))

    def fill(products: int, attributes: int) -> None:
        rows = [{"product": {**FINISHED[1], "asin": asin}} for asin in ids[:products]]
        write(shop / "products_100.jsonl", "\n".join(map(json.dumps, rows)))
        write(shop / "items_ins_v2_100.json", json.dumps({asin: {} for asin in ids[:attributes]}))

    fill(50, 100)
    with pytest.raises(DataError, match=r"products_100\.jsonl: holds 50 products, expected the 100 that .*Copy"):
        load("100", str(tmp_path))
    fill(100, 50)
    with pytest.raises(DataError, match=r"items_ins_v2_100\.json: holds 50 products, expected the 100 that .*Copy"):
        load("100", str(tmp_path))
    fill(100, 100)
    assert len(load("100", str(tmp_path))) == 100


@pytest.mark.parametrize("entry", [None, "lamp", [1], [None], {"lamp": 1}, 5, ["\ud800"]])
def test_a_broken_entry_of_nouns_is_named_with_its_own_file(tmp_path: Path, entry: Any) -> None:
    folder = packed(tmp_path, tagged={**NOUNS, "B0LAMP0001": entry})
    with pytest.raises(DataError, match=r"title_nouns\.json\.xz: the nouns of product 'B0LAMP0001' must be a list"):
        load("all", str(folder))


def test_a_title_may_have_no_nouns_but_not_all_titles(tmp_path: Path) -> None:
    assert load("all", str(packed(tmp_path, tagged={**NOUNS, "B0LAMP0001": []}))).products[1].nouns == ()
    with pytest.raises(DataError, match=r"title_nouns\.json\.xz: every product's list of nouns is empty"):
        load("all", str(packed(tmp_path, tagged={asin: [] for asin in NOUNS})))


def test_options_are_checked_when_the_shop_is_made() -> None:
    from agentgym.environments.webshop import WebShop
    from agentgym.errors import AgentGymError

    for data in (5, float("nan"), b"x", [], "", "a\0b", "\ud800"):
        with pytest.raises(ConfigError, match="environment 'webshop': data must be the path of"):
            WebShop(data=data)  # type: ignore[arg-type]
    WebShop(data=Path("somewhere"))  # type: ignore[arg-type]
    for option in ("observation", "goals", "prices"):
        with pytest.raises(AgentGymError, match=f"{option} of environment 'webshop'"):
            WebShop(**{option: []})
