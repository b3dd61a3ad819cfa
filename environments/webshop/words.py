"""Word lists of the generated catalogue. All are our own; brands exist nowhere."""

from __future__ import annotations

from typing import Final, NamedTuple

_BRANDS_TEXT: Final = (
    "Norvale Quillmere Brastow Ellowick Fenharrow Tindlecot Marrowby Oskelund Pellbrook Ravensey Thistlowe Umberlin "
    "Vexholm Wrenfold Yarrowick Zandrell"
)
BRANDS: Final = _BRANDS_TEXT.split()

#: option -> values; a product offers a few of them
OPTIONS: Final = {
    "color": (
        "black, white, navy blue, forest green, wine red, charcoal, beige, sky blue, mustard yellow, dusty pink, "
        "silver, burgundy, teal, lavender, orange, khaki"
    ),
    "size": "x-small, small, medium, large, x-large, xx-large",
    "shoe size": "6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11",
    "width": "narrow, regular, wide",
    "scent": "vanilla bean, cedarwood, citrus, jasmine, sea salt, unscented",
    "volume": "50 ml, 100 ml, 250 ml, 500 ml",
    "flavor": "original, sea salt, honey, cinnamon, smoky paprika, vanilla, lemon zest, garlic herb",
    "pack": "pack of 1, pack of 3, pack of 6, pack of 12",
    "length": "3 feet, 6 feet, 10 feet, 15 feet",
    "capacity": "32 gb, 64 gb, 128 gb, 256 gb",
    "plug": "us plug, uk plug, eu plug",
    "dimensions": "12 x 16 inch, 16 x 20 inch, 24 x 36 inch, 30 x 40 inch",
    "style": "classic, modern, country, minimal",
    "ruling": "lined, dotted, blank, grid",
    "age": "3 to 5 years, 6 to 8 years, 9 to 12 years",
    "weight": "5 pounds, 10 pounds, 15 pounds, 20 pounds",
}

#: category: department > group: type (plural; also what it is searched by) | options | price range; ...
_TYPES: Final = """
fashion: Clothing > Outerwear:
    rain jackets | color, size | 30 120; fleece vests | color, size | 20 70; down parkas | color, size | 80 260;
    wool coats | color, size | 70 240
fashion: Clothing > Basics:
    crew socks | color, pack | 6 25; thermal leggings | color, size | 15 45; linen shirts | color, size | 22 80;
    pajama sets | color, size | 25 75
shoes: Footwear > Outdoor:
    hiking boots | color, shoe size | 55 190; trail runners | color, shoe size | 50 160;
    water sandals | color, shoe size | 20 75; snow boots | color, shoe size | 45 150
shoes: Footwear > Everyday:
    penny loafers | color, shoe size, width | 35 140; canvas sneakers | color, shoe size | 20 80;
    house slippers | color, shoe size | 12 45; ballet flats | color, shoe size, width | 18 90
beauty: Beauty Care > Skin:
    face moisturizers | volume | 9 60; body lotions | scent, volume | 7 35; sunscreen creams | volume | 8 40;
    bath salts | scent, pack | 9 38
beauty: Beauty Care > Hair:
    shampoo bars | scent, pack | 6 30; hair masks | scent, volume | 8 45; beard oils | scent, volume | 9 40;
    styling brushes | color, size | 8 55
grocery: Pantry > Snacks:
    trail mixes | flavor, pack | 6 48; rice crackers | flavor, pack | 4 36; roasted almonds | flavor, pack | 7 60;
    granola bars | flavor, pack | 5 42
grocery: Pantry > Drinks:
    herbal teas | flavor, pack | 5 40; cocoa powders | flavor, pack | 6 38; oat milks | flavor, pack | 5 45;
    coffee beans | flavor, pack | 9 70
electronics: Devices > Audio:
    wireless earbuds | color | 25 180; bluetooth speakers | color, plug | 20 160;
    desk microphones | color, plug | 30 190; clock radios | color, plug | 15 70
electronics: Devices > Accessories:
    charging cables | color, length | 6 30; memory cards | capacity | 9 90; tablet stands | color | 12 60;
    power banks | color, capacity | 18 95
garden: Home Living > Decor:
    wall posters | dimensions, style | 9 70; throw pillows | color, style | 10 48; table lamps | color, style | 20 130;
    window curtains | color, length | 16 90
garden: Home Living > Furniture:
    folding chairs | color | 25 120; bookshelves | color, style | 50 260; coat racks | color, style | 18 110;
    console tables | color, style | 70 380
office: Stationery > Writing:
    pocket notebooks | color, ruling | 6 28; gel pens | color, pack | 4 26; sketch pads | dimensions, pack | 8 44;
    desk planners | color, ruling | 9 38
office: Stationery > Organizing:
    letter trays | color, style | 10 48; pencil cases | color, size | 6 30; cork boards | dimensions, style | 14 75;
    file boxes | color, size | 11 52
sports: Recreation > Fitness:
    yoga mats | color, style | 15 80; resistance bands | color, pack | 8 40; kettlebells | weight | 18 110;
    foam rollers | color, size | 12 50
sports: Recreation > Games:
    wooden puzzles | age, style | 9 45; card games | age, pack | 7 35; building blocks | color, age | 15 85;
    plush animals | color, size | 10 46
"""

_ATTRIBUTES: Final = {
    "fashion": "machine washable, quick drying, fleece lined, wind resistant, slim fit, loose fit, "
    "long sleeve, hooded, stretch fabric, hidden pockets, organic cotton, wrinkle free",
    "shoes": "slip resistant, memory foam, arch support, water repellent, rubber sole, vegan leather, "
    "breathable mesh, removable insole, steel shank, ankle support, cushioned heel",
    "beauty": "cruelty free, paraben free, fragrance free, long lasting, sulfate free, plant based, "
    "for sensitive skin, travel friendly, dermatologist tested, fast absorbing, non greasy",
    "grocery": "gluten free, dairy free, non gmo, low sodium, no added sugar, high protein, kosher certified, "
    "individually wrapped, slow roasted, nut free, shelf stable",
    "electronics": "fast charging, noise cancelling, water resistant, long battery life, plug and play, "
    "braided cord, high definition, voice control, compact size, shock proof, easy pairing",
    "garden": "easy assembly, solid wood, fade resistant, space saving, heavy duty, hand made, scratch proof, "
    "eco friendly, easy clean, height adjustable, metal frame",
    "office": "acid free, refillable, smear proof, lay flat, recycled paper, spiral bound, stackable, "
    "magnetic closure, non toxic, hard cover, anti tear",
    "sports": "non slip, sweat proof, extra thick, carry strap, latex free, odor free, hand painted, smooth edges, "
    "impact absorbing, beginner friendly, storage bag included",
}


class Kind(NamedTuple):
    """One type of product: ``name`` is its plural, ``path`` the category path, ``prices`` in dollars."""

    category: str
    path: str
    name: str
    options: tuple[str, ...]
    prices: tuple[float, float]


def _parts(text: str, sign: str = ",") -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(sign) if part.strip())


def _kinds() -> tuple[Kind, ...]:
    found, category, department = [], "", ""
    for line in _TYPES.strip().split("\n"):
        if not line.startswith(" "):
            category, department, _ = (*_parts(line + " ", ":"), "")
            continue
        for entry in _parts(line, ";"):
            name, options, prices = _parts(entry, "|")
            low, high = map(float, prices.split())
            path = " > ".join([department, name.title()]).replace(">", "\u203a")
            found.append(Kind(category, path, name, _parts(options), (low, high)))
    return tuple(found)


KINDS: Final = _kinds()
CATEGORIES: Final = tuple(dict.fromkeys(kind.category for kind in KINDS))
ATTRIBUTES: Final = {category: _parts(text) for category, text in _ATTRIBUTES.items()}
VALUES: Final = {name: _parts(text) for name, text in OPTIONS.items()}
#: first sentence, and further ones; {attr} is an attribute
OPENINGS: Final = (
    "These {name} from {brand} are made for people who use them every day.",
    "{brand} makes {name} in small series and checks each of them by hand.",
    "Our {name} have been the favourite of {brand} customers for years.",
    "A practical choice: {name} by {brand}, without anything you do not need.",
)
REASONS: Final = (
    "You get {attr} quality that stays the same wash after wash and week after week.",
    "The {attr} finish is what most buyers mention first.",
    "Thanks to the {attr} design there is nothing to worry about.",
    "We added {attr} properties because customers asked for them.",
    "{attr}, as it should be.",
)
