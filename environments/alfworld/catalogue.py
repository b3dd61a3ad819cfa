"""What exists in ALFWorld's households and how tasks about it are worded.

All names are lower case without ``type``, as in :mod:`~agentgym.environments.alfworld.problem`. The relations are facts
about the official games (json_2.1.3 generation, all 4,027): an ability belongs to a type or does not, and
``canContain`` is one fixed relation of which a game states the pairs whose types it has; tests/environments/alfworld
compare both with the official games where those are at hand.
"""

from __future__ import annotations

from typing import Final

from agentgym.environments.alfworld.households import PLACES, weights

#: groups of object types, for the table below
_GROUPS: Final = {
    "food": "apple bread egg lettuce potato tomato",
    "cutlery": "butterknife fork knife spatula spoon",
    "dishes": "bowl cup mug plate",
    "pans": "kettle pan pot",
    "shakers": "peppershaker saltshaker",
    "bottles": "glassbottle winebottle",
    "pocket": "cellphone creditcard keychain",
    "writing": "pen pencil",
    "reading": "book laptop newspaper",
    "washing": "cloth dishsponge handtowel soapbar",
    "cleaners": "soapbottle spraybottle",
    "paper": "tissuebox toiletpaper",
    "ornaments": "statue vase",
    "sports": "basketball tennisracket",
}

#: receptacle type: what it can contain; ``@`` a whole group, ``-`` all but this one
_CONTAINS: Final = """
    armchair: @pocket @reading box cloth pillow remotecontrol;
    bathtubbasin: @washing;
    bed: @reading @sports baseballbat cellphone pillow -newspaper;
    cabinet: @dishes @pans @shakers @bottles @reading @washing @cleaners @paper box candle cd ladle plunger vase
        wateringcan -laptop;
    cart: @washing @cleaners @paper candle plunger;
    coffeemachine: mug;
    coffeetable: @pocket @writing @reading @ornaments bowl box candle plate remotecontrol tissuebox watch
        wateringcan;
    countertop: @food @cutlery @dishes @pans @shakers @bottles @pocket @writing @reading @washing @cleaners
        @paper @ornaments alarmclock candle cd ladle remotecontrol -newspaper;
    desk: @pocket @writing @reading @ornaments @sports alarmclock bowl box cd cloth mug remotecontrol tissuebox
        watch wateringcan -newspaper;
    diningtable: @food @cutlery @dishes @pans @shakers @bottles @pocket @writing @reading @cleaners @ornaments
        @sports alarmclock baseballbat box candle cd cloth dishsponge ladle remotecontrol tissuebox watch
        wateringcan;
    drawer: @cutlery @shakers @pocket @writing @reading @washing @cleaners @paper candle cd ladle remotecontrol
        watch wateringcan -laptop;
    dresser: @dishes @pocket @writing @reading @paper @ornaments @sports alarmclock box candle cd cloth
        remotecontrol spraybottle watch wateringcan -cup;
    fridge: @food @dishes @pans @bottles -kettle;
    garbagecan: @food @writing @washing @cleaners @paper cd newspaper winebottle;
    handtowelholder: handtowel;
    laundryhamper: cloth;
    microwave: @food @dishes glassbottle -lettuce;
    ottoman: @pocket @reading box pillow remotecontrol;
    safe: @pocket @ornaments cd watch;
    shelf: @dishes @pans @shakers @bottles @pocket @writing @reading @washing @cleaners @paper @ornaments
        alarmclock box candle cd remotecontrol watch wateringcan -laptop -pan;
    sidetable: @food @cutlery @dishes @pans @shakers @pocket @writing @reading @washing @cleaners @paper
        @ornaments @sports alarmclock baseballbat box candle cd remotecontrol watch wateringcan winebottle;
    sinkbasin: @food @cutlery @dishes @pans @washing glassbottle ladle -bread;
    sofa: @pocket @reading box pillow remotecontrol;
    stoveburner: @pans;
    tvstand: tissuebox;
    toiletpaperhanger: toiletpaper;
    toaster: ;
    toilet: @washing @cleaners @paper candle;
    towelholder: towel;
"""

_ABLE: Final = {
    "cleanable": "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle lettuce mug pan plate pot "
    "potato soapbar spatula spoon tomato",
    "heatable": "apple bread cup egg mug plate potato tomato",
    "coolable": "apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle",
    "sliceable": "apple bread egg lettuce potato tomato",
    "toggleable": "desklamp floorlamp",
}
#: seen and counted, but nobody can take them
FIXTURES: Final = frozenset({"desklamp", "floorlamp", "houseplant", "television"})
#: what other things can lie in
VESSELS: Final = frozenset({"bowl", "box", "cup", "mug", "pan", "plate", "pot"})
#: how often a receptacle of the type can be closed (all are closed at the start); types not named here never
OPENABLE: Final = {"fridge": 1.0, "microwave": 1.0, "cabinet": 0.82, "drawer": 0.84, "safe": 0.83}
#: how often a coolable thing in a fridge counts as cold at the start
COLD_IN_FRIDGE: Final = 0.07
#: receptacles that share one spot: (type, other type, how often one of the first joins one of the second)
SHARED: Final = (
    ("stoveburner", "stoveburner", 0.60),
    ("cabinet", "cabinet", 0.15),
    ("drawer", "drawer", 0.18),
    ("shelf", "shelf", 0.09),
    ("toaster", "countertop", 0.30),
    ("coffeemachine", "countertop", 0.23),
    ("drawer", "dresser", 0.02),
    ("drawer", "sidetable", 0.02),
    ("tvstand", "shelf", 0.28),
    ("towelholder", "handtowelholder", 0.03),
)

#: the two official sentences of each task type
WORDINGS: Final = {
    "pick_and_place_simple": ("put a {item} in {target}.", "put some {item} on {target}."),
    "look_at_obj_in_light": ("look at {item} under the {target}.", "examine the {item} with the {target}."),
    "pick_clean_then_place_in_recep": ("put a clean {item} in {target}.", "clean some {item} and put it in {target}."),
    "pick_heat_then_place_in_recep": ("put a hot {item} in {target}.", "heat some {item} and put it in {target}."),
    "pick_cool_then_place_in_recep": ("put a cool {item} in {target}.", "cool some {item} and put it in {target}."),
    "pick_two_obj_and_place": ("put two {item} in {target}.", "find two {item} and put them in {target}."),
}
#: where each transformation happens
APPLIANCES: Final = {"clean": "sinkbasin", "hot": "microwave", "cool": "fridge"}

#: task type, room, how often (official training games; 1 in our own studio), objects, targets, both with frequencies
_GOALS: Final = """
pick_and_place_simple bathroom 264:
    toiletpaper 57 soapbottle 50 spraybottle 50 candle 49 handtowel 29 cloth 10 tissuebox 7 dishsponge 6 soapbar
    6
    -> toilet 89 garbagecan 47 toiletpaperhanger 42 countertop 26 cabinet 22 drawer 16 cart 12 sidetable 6 dresser
    2 shelf 2;
pick_and_place_simple bedroom 237:
    cellphone 51 cd 30 book 28 keychain 26 pencil 24 alarmclock 22 pen 20 creditcard 14 laptop 6 mug 3
    remotecontrol 3 statue 3 tissuebox 3 pillow 2 watch 2
    -> desk 57 shelf 40 sidetable 33 dresser 32 bed 19 armchair 15 safe 15 diningtable 13 drawer 8 cabinet 3
    garbagecan 2;
pick_and_place_simple kitchen 79:
    peppershaker 12 glassbottle 9 kettle 9 tomato 8 butterknife 6 pan 5 winebottle 5 egg 4 bowl 3 bread 3
    dishsponge 3 potato 3 saltshaker 3 fork 2 lettuce 2 knife 1 soapbottle 1
    -> microwave 15 diningtable 12 drawer 10 countertop 9 cabinet 8 shelf 8 fridge 7 sidetable 6 stoveburner 3
    garbagecan 1;
pick_and_place_simple livingroom 210:
    remotecontrol 30 keychain 26 book 19 box 19 creditcard 19 statue 19 newspaper 17 laptop 15 pillow 15 vase 10
    watch 10 tissuebox 6 plate 3 bowl 2
    -> armchair 56 sofa 53 coffeetable 43 ottoman 20 sidetable 12 dresser 11 drawer 5 garbagecan 3 safe 3
    diningtable 2 shelf 2;
look_at_obj_in_light bedroom 257:
    alarmclock 41 pillow 39 cd 33 book 30 pencil 23 pen 18 bowl 17 laptop 17 cellphone 9 statue 6 tissuebox 6
    creditcard 5 keychain 4 mug 4 watch 3 vase 2
    -> desklamp 257;
look_at_obj_in_light livingroom 51:
    newspaper 14 box 9 pillow 8 statue 5 tissuebox 4 laptop 3 plate 3 watch 3 vase 2
    -> desklamp 51;
pick_clean_then_place_in_recep bathroom 149:
    soapbar 84 cloth 47 dishsponge 18
    -> toilet 32 countertop 28 drawer 27 cabinet 21 garbagecan 19 cart 11 shelf 9 dresser 2;
pick_clean_then_place_in_recep kitchen 501:
    kettle 47 ladle 38 knife 33 mug 32 lettuce 31 spatula 29 pan 28 bowl 26 butterknife 26 spoon 26 tomato 26
    apple 25 potato 25 egg 23 fork 23 plate 22 cup 20 pot 16 dishsponge 5
    -> diningtable 99 countertop 68 drawer 55 microwave 50 fridge 40 sidetable 40 cabinet 37 stoveburner 37
    coffeemachine 32 shelf 31 garbagecan 12;
pick_heat_then_place_in_recep kitchen 459:
    mug 102 cup 71 egg 70 potato 60 tomato 53 apple 52 plate 39 bread 12
    -> fridge 105 cabinet 71 countertop 66 garbagecan 55 coffeemachine 55 sidetable 44 diningtable 43 shelf 20;
pick_cool_then_place_in_recep kitchen 533:
    mug 74 pot 57 bowl 49 pan 46 apple 44 potato 44 bread 40 cup 40 lettuce 37 tomato 34 egg 25 plate 25
    winebottle 18
    -> microwave 97 diningtable 93 countertop 89 cabinet 64 coffeemachine 47 garbagecan 46 shelf 45 stoveburner 39
    sidetable 13;
pick_two_obj_and_place bathroom 233:
    spraybottle 58 soapbottle 44 toiletpaper 43 candle 35 handtowel 16 soapbar 16 tissuebox 8 dishsponge 7 cloth
    6
    -> toilet 59 cabinet 41 drawer 40 garbagecan 35 countertop 26 cart 16 shelf 11 dresser 3 sidetable 2;
pick_two_obj_and_place bedroom 240:
    cellphone 42 book 34 cd 26 pen 25 pencil 25 alarmclock 21 keychain 18 creditcard 16 laptop 8 bowl 6
    tissuebox 6 mug 5 watch 5 pillow 2 vase 1
    -> desk 53 drawer 39 dresser 34 bed 31 sidetable 27 shelf 24 diningtable 11 garbagecan 8 safe 6 armchair 5
    cabinet 2;
pick_two_obj_and_place kitchen 124:
    saltshaker 25 peppershaker 22 cup 14 lettuce 11 kettle 6 spatula 6 winebottle 6 spoon 5 egg 4 ladle 4 potato
    4 bread 3 glassbottle 3 pot 3 tomato 3 knife 2 pan 2 apple 1
    -> drawer 26 cabinet 24 fridge 19 shelf 12 countertop 11 microwave 11 diningtable 11 sidetable 7 garbagecan 3;
pick_two_obj_and_place livingroom 216:
    remotecontrol 43 creditcard 36 newspaper 36 keychain 16 vase 13 tissuebox 12 cellphone 11 statue 10 watch 8
    pillow 5 plate 5 book 3 bowl 3 box 3 laptop 3 pen 3 pencil 3 wateringcan 3
    -> armchair 63 coffeetable 50 sofa 47 dresser 11 ottoman 11 drawer 7 diningtable 7 garbagecan 6 sidetable 6
    shelf 5 desk 2 safe 1;
pick_and_place_simple studio 1:
    apple 1 bowl 1 book 1 cup 1 egg 1 mug 1 pencil 1 plate 1
    -> cabinet 1 countertop 1 desk 1 drawer 1 fridge 1 garbagecan 1 microwave 1 shelf 1 sidetable 1;
look_at_obj_in_light studio 1:
    book 1 bowl 1 mug 1 pencil 1
    -> desklamp 1;
pick_clean_then_place_in_recep studio 1:
    apple 1 bowl 1 cup 1 egg 1 mug 1 plate 1 potato 1
    -> cabinet 1 countertop 1 fridge 1 microwave 1 shelf 1 sidetable 1;
pick_heat_then_place_in_recep studio 1:
    apple 1 cup 1 egg 1 mug 1 plate 1 potato 1
    -> cabinet 1 countertop 1 fridge 1 shelf 1 sidetable 1;
pick_cool_then_place_in_recep studio 1:
    apple 1 bowl 1 cup 1 egg 1 mug 1 plate 1 potato 1
    -> cabinet 1 countertop 1 microwave 1 shelf 1 sidetable 1;
pick_two_obj_and_place studio 1:
    apple 1 bowl 1 book 1 cup 1 egg 1 mug 1 pencil 1 plate 1
    -> cabinet 1 countertop 1 desk 1 drawer 1 fridge 1 shelf 1 sidetable 1;
"""


def _expand(text: str) -> frozenset[str]:
    found: set[str] = set()
    for word in text.split():
        if word.startswith("@"):
            found.update(_GROUPS[word[1:]].split())
        elif word.startswith("-"):
            found.discard(word[1:])
        else:
            found.add(word)
    return frozenset(found)


def _goal(entry: str) -> tuple[tuple[str, str], tuple[int, dict[str, int], dict[str, int]]]:
    head, _, content = entry.partition(":")
    kind, room, frequency = head.split()
    items, _, targets = content.partition("->")
    return (kind, room), (int(frequency), weights(items), weights(targets))


def _abilities(kind: str) -> frozenset[str]:
    able = {ability for ability, kinds in _ABLE.items() if kind in kinds.split()}
    return frozenset(able if kind in FIXTURES else able | {"pickupable"})


#: receptacle type -> object types it can contain
CAN_CONTAIN: Final = {
    name.strip(): _expand(content)
    for name, content in (entry.split(":") for entry in _CONTAINS.split(";") if entry.strip())
}
#: (task type, room) -> (frequency, object type -> frequency, target type -> frequency)
GOALS: Final = dict(_goal(entry) for entry in _GOALS.split(";") if entry.strip())
ABILITIES_OF: Final = {kind: _abilities(kind) for kind in sorted({*PLACES})}
