"""What stands and lies in a household, measured on the 3,553 official ALFWorld training games (json_2.1.3 generation).

The tables are statistics, no layouts: the generator draws every room anew from them. Only what a player can see is
counted: windows, chairs, paintings, stove knobs and the like occur in no list and no command.

* :data:`ROOMS`: per room type, how many of each receptacle and object there are, as ten equally likely counts (the
  5th, 15th, ..., 95th percentile of the games). Apart from the four official rooms there is ``studio``, a room of our
  own with every appliance, for small games in which all six task types are possible.
* :data:`PLACES`: per object type, the preference for each receptacle type *that is present* (percent; a Luce choice
  model fitted by maximum likelihood; on the training games its predictions differ from the observed places by 0.03 in
  total variation). ``floor`` is no receptacle: the object exists and takes a number but cannot be reached, as 5 % of
  the official games' objects do.
"""

from __future__ import annotations

from typing import Final

_ROOMS: Final = {
    "kitchen": (
        """
        cabinet 4-8-9-11-12-13-15-19-20-26; coffeemachine 1111111111; countertop 1122223334; diningtable 0000111113;
        drawer 1-2-3-3-4-5-6-7-9-13; fridge 1111111111; garbagecan 1111111111; microwave 1111111111;
        shelf 0000000033; sidetable 0000000001; sinkbasin 1111111111; stoveburner 4444444444; toaster 1111111111;
        """,
        """
        apple 1112223333; book 0000000001; bowl 1112222333; bread 1111112223; butterknife 1111222333;
        cellphone 0000000002; creditcard 0000000002; cup 1111222333; dishsponge 1112222333; egg 1112222333;
        fork 1112222333; glassbottle 0000000023; houseplant 0000001111; kettle 0000011223; knife 1111222333;
        ladle 0000001123; lettuce 1111222233; mug 1111222333; pan 1111111222; papertowelroll 0000001111;
        pen 0000000001; pencil 0000000001; peppershaker 1112223333; plate 1111222333; pot 1111122223;
        potato 1111222333; saltshaker 1111222333; soapbottle 1112222333; spatula 1111222333; spoon 1112222333;
        spraybottle 0000000001; statue 0000000012; tomato 1112222333; vase 0000000023; winebottle 0000001223;
        """,
    ),
    "livingroom": (
        """
        armchair 0111112222; cabinet 0000000014; coffeetable 0011111122; diningtable 0000011112;
        drawer 0-0-1-1-4-4-4-4-7-12; dresser 0000001111; garbagecan 1111111111; ottoman 0000000001;
        shelf 0-0-0-0-0-0-1-2-8-13; sidetable 0011122333; sofa 1111111122; tvstand 0000001112;
        """,
        """
        book 0000000113; boots 0000000011; bowl 0000000002; box 1111111223; candle 0000000003; cellphone 0000000013;
        creditcard 1112223333; desklamp 0000000111; floorlamp 1111111111; houseplant 1111111112;
        keychain 1112222333; laptop 1111111223; newspaper 0000112233; pen 0000000013; pencil 0000000013;
        pillow 1111111112; plate 0000001123; remotecontrol 1112223333; statue 1112223334; television 1111111111;
        tissuebox 0000000123; vase 0000122334; watch 0000012233; wateringcan 0000011111;
        """,
    ),
    "bedroom": (
        """
        armchair 0000000012; bed 1111111122; cabinet 0000000014; desk 0001111112; diningtable 0000000001;
        drawer 2-2-2-3-4-5-6-10-11-16; dresser 0000011112; garbagecan 1111111111; laundryhamper 0000000111;
        safe 0000000011; shelf 0-0-0-1-1-1-2-5-7-12; sidetable 0001111122;
        """,
        """
        alarmclock 1111122233; baseballbat 0000001111; basketball 0000001111; book 1111222333; boots 0000000001;
        bowl 0000011123; box 0000011111; cd 1112223333; cellphone 1112223333; cloth 0000000012;
        creditcard 1112222333; desklamp 0001111111; houseplant 0000000111; keychain 1112223333; laptop 1111122223;
        mug 0000011223; pen 1112223333; pencil 1112222333; pillow 1111222223; remotecontrol 0000000002;
        statue 0000000002; teddybear 0000001111; television 0000000001; tennisracket 0000001111;
        tissuebox 0000000002; vase 0000000001; watch 0000000002;
        """,
    ),
    "bathroom": (
        """
        bathtubbasin 0001111111; cabinet 0000004445; cart 0000000001; countertop 0111111112; drawer 0000124488;
        dresser 0000000001; garbagecan 1111111111; handtowelholder 1111112222; shelf 0000000113;
        sidetable 0000000001; sinkbasin 1111122222; toilet 1111111111; toiletpaperhanger 1111111111;
        towelholder 1111111222;
        """,
        """
        candle 1112222333; cloth 1111222333; dishsponge 0000000023; floorlamp 0000000002; handtowel 1111111122;
        papertowelroll 0000000011; plunger 1111111111; scrubbrush 1111111111; soapbar 1112223333;
        soapbottle 1112222333; spraybottle 1111222333; tissuebox 0000000113; toiletpaper 2222222333;
        towel 1111111112;
        """,
    ),
    "studio": (
        """
        cabinet 0111111222; countertop 1111111112; desk 0000011111; drawer 0011111122;
        fridge 0001111111; garbagecan 0000000111; microwave 0001111111; shelf 0000001111; sidetable 0000011111;
        sinkbasin 0001111111;
        """,
        """
        apple 0111111222; book 0001111112; bowl 0011111122; cup 0001111122; desklamp 0000111111; egg 0011111122;
        mug 0111111222; pencil 0001111112; plate 0011111122; potato 0001111112;
        """,
    ),
}

_PLACES: Final = """
    alarmclock: countertop 25 diningtable 25 desk 16 dresser 12 shelf 11 sidetable 11;
    apple: diningtable 23 countertop 18 fridge 18 sidetable 15 garbagecan 9 microwave 9 sinkbasin 7 floor 1;
    baseballbat: floor 100;
    basketball: floor 100;
    book: countertop 23 bed 19 desk 11 coffeetable 10 diningtable 8 cabinet 6 dresser 6 sofa 5 armchair 4 drawer
        4 sidetable 2 shelf 1 tvstand 1;
    boots: floor 100;
    bowl: cabinet 18 desk 15 diningtable 15 countertop 10 fridge 10 coffeetable 7 shelf 7 tvstand 7 dresser 5
        sinkbasin 2 microwave 1 sidetable 1;
    box: diningtable 30 coffeetable 15 floor 15 sofa 13 cabinet 6 tvstand 5 desk 4 shelf 4 ottoman 3 sidetable 3
        armchair 2 dresser 2;
    bread: diningtable 52 countertop 35 fridge 8 sidetable 4;
    butterknife: diningtable 38 countertop 36 sidetable 15 drawer 5 sinkbasin 3 floor 2;
    candle: sidetable 19 coffeetable 11 countertop 10 cabinet 9 diningtable 8 shelf 8 toilet 8 drawer 7 tvstand
        7 cart 6 dresser 6 floor 3;
    cd: diningtable 28 drawer 13 dresser 13 desk 12 sidetable 9 floor 7 cabinet 6 armchair 4 shelf 4 garbagecan
        3;
    cellphone: ottoman 11 bed 10 diningtable 10 coffeetable 9 desk 9 dresser 8 tvstand 8 countertop 6 drawer 6
        sidetable 6 sofa 6 armchair 5 shelf 4 safe 3;
    cloth: cabinet 30 bathtubbasin 26 cart 10 countertop 10 drawer 6 floor 6 sinkbasin 4 shelf 3 dresser 2
        toilet 2;
    creditcard: countertop 11 sofa 10 tvstand 10 coffeetable 9 diningtable 9 drawer 9 desk 8 dresser 8 armchair
        7 shelf 7 sidetable 7 ottoman 5;
    cup: diningtable 20 cabinet 16 countertop 15 fridge 15 sidetable 14 shelf 7 sinkbasin 6 microwave 5 floor 1;
    desklamp: sidetable 46 desk 22 dresser 16 coffeetable 10 shelf 6;
    dishsponge: countertop 15 diningtable 15 cabinet 14 drawer 13 bathtubbasin 11 shelf 8 cart 7 sidetable 4
        sinkbasin 4 toilet 4 garbagecan 3 floor 1;
    egg: fridge 19 countertop 18 diningtable 18 sidetable 13 garbagecan 10 sinkbasin 10 microwave 9 floor 2;
    floorlamp: floor 59 sinkbasin 41;
    fork: diningtable 36 countertop 29 drawer 15 sidetable 12 sinkbasin 6 floor 3;
    glassbottle: diningtable 27 cabinet 23 countertop 20 shelf 10 fridge 7 sinkbasin 7 garbagecan 6 floor 1;
    handtowel: handtowelholder 96 countertop 4;
    houseplant: countertop 53 diningtable 13 sidetable 7 dresser 5 floor 5 coffeetable 4 desk 4 shelf 4 cabinet
        2 tvstand 2;
    kettle: stoveburner 36 countertop 22 cabinet 21 diningtable 17 floor 1 shelf 1 sinkbasin 1;
    keychain: coffeetable 10 desk 10 drawer 10 dresser 10 sidetable 9 diningtable 8 shelf 8 tvstand 8 safe 6
        floor 5 ottoman 5 sofa 5 armchair 4 cabinet 1 countertop 1;
    knife: diningtable 40 countertop 32 drawer 14 sidetable 6 floor 4 sinkbasin 3;
    ladle: countertop 31 diningtable 30 cabinet 19 drawer 15 floor 3 sinkbasin 2;
    laptop: bed 38 countertop 19 desk 14 diningtable 8 coffeetable 5 sofa 5 dresser 4 ottoman 2 tvstand 2
        armchair 1 sidetable 1;
    lettuce: diningtable 45 countertop 25 fridge 14 sidetable 11 sinkbasin 3 floor 2 garbagecan 1;
    mug: countertop 17 diningtable 13 desk 12 cabinet 9 dresser 9 fridge 8 sidetable 8 shelf 7 coffeemachine 6
        microwave 4 sinkbasin 4 floor 2;
    newspaper: diningtable 20 dresser 16 shelf 14 coffeetable 12 sofa 11 sidetable 9 ottoman 8 tvstand 6
        armchair 4 drawer 1;
    pan: stoveburner 46 countertop 30 diningtable 10 cabinet 9 fridge 5;
    papertowelroll: countertop 25 diningtable 23 shelf 14 toilet 12 sidetable 10 cart 9 garbagecan 7 floor 1;
    pen: diningtable 20 coffeetable 15 desk 14 dresser 11 countertop 10 tvstand 9 shelf 8 sidetable 8 drawer 6
        garbagecan 1;
    pencil: diningtable 16 coffeetable 14 desk 13 sidetable 12 shelf 10 dresser 9 drawer 8 tvstand 8 countertop
        7 garbagecan 2;
    peppershaker: diningtable 22 cabinet 21 countertop 19 sidetable 17 shelf 11 drawer 10;
    pillow: bed 80 sofa 16 armchair 4;
    plate: cabinet 24 diningtable 21 countertop 19 coffeetable 8 shelf 7 fridge 6 floor 4 tvstand 4 sidetable 3
        dresser 2 sinkbasin 1;
    plunger: floor 100;
    pot: stoveburner 66 countertop 15 diningtable 9 fridge 5 cabinet 4 shelf 2;
    potato: diningtable 25 countertop 22 fridge 20 sidetable 11 microwave 8 sinkbasin 8 garbagecan 5 floor 2;
    remotecontrol: countertop 17 coffeetable 13 diningtable 10 tvstand 10 desk 9 dresser 9 sofa 8 sidetable 6
        ottoman 5 armchair 4 drawer 4 floor 3 shelf 3;
    saltshaker: diningtable 24 cabinet 20 countertop 20 sidetable 18 drawer 9 shelf 9;
    scrubbrush: floor 100;
    soapbar: sidetable 16 cabinet 14 cart 11 countertop 11 bathtubbasin 9 drawer 9 shelf 9 sinkbasin 7 toilet 7
        floor 3 garbagecan 3;
    soapbottle: diningtable 21 cabinet 15 countertop 14 dresser 14 shelf 11 toilet 8 sidetable 6 cart 4
        garbagecan 4 floor 2 drawer 1;
    spatula: diningtable 40 countertop 32 drawer 16 sinkbasin 6 sidetable 4 floor 2;
    spoon: diningtable 33 countertop 25 drawer 19 sidetable 14 sinkbasin 7 floor 3;
    spraybottle: cart 18 diningtable 18 cabinet 13 countertop 11 shelf 10 sidetable 10 dresser 9 toilet 8
        garbagecan 3;
    statue: countertop 21 shelf 16 desk 15 diningtable 12 coffeetable 10 tvstand 10 dresser 8 sidetable 8;
    teddybear: bed 75 floor 25;
    television: tvstand 64 dresser 30 floor 4 coffeetable 1;
    tennisracket: floor 100;
    tissuebox: coffeetable 20 desk 14 diningtable 14 tvstand 12 shelf 8 countertop 7 sidetable 7 cabinet 6 cart
        5 drawer 4 dresser 3;
    toiletpaper: dresser 13 cabinet 12 countertop 12 shelf 10 toilet 10 cart 9 drawer 9 floor 8 sidetable 8
        toiletpaperhanger 5 garbagecan 4;
    tomato: diningtable 30 fridge 24 countertop 21 sidetable 13 garbagecan 7 sinkbasin 5 floor 1;
    towel: towelholder 97 countertop 3;
    vase: countertop 18 shelf 17 dresser 16 cabinet 14 desk 9 diningtable 8 coffeetable 7 sidetable 5 tvstand 4
        floor 1;
    watch: desk 14 diningtable 14 drawer 14 coffeetable 13 tvstand 13 dresser 12 shelf 10 sidetable 10;
    wateringcan: floor 52 shelf 35 coffeetable 11 sidetable 2;
    winebottle: diningtable 33 countertop 30 cabinet 21 garbagecan 7 shelf 7 fridge 1 sidetable 1;
"""


def _counts(table: str) -> dict[str, tuple[int, ...]]:
    """``mug 0012; drawer 0-1-12;`` as type -> ten counts: digits, or numbers with dashes between them."""
    counts: dict[str, tuple[int, ...]] = {}
    for entry in table.split(";"):
        if entry.strip():
            name, values = entry.split()
            counts[name] = tuple(int(value) for value in (values.split("-") if "-" in values else values))
    return counts


def weights(text: str) -> dict[str, int]:
    """``desk 34 shelf 21`` as type -> weight."""
    words = text.split()
    return {name: int(weight) for name, weight in zip(words[::2], words[1::2], strict=True)}


#: room type -> (receptacle type -> ten counts, object type -> ten counts)
ROOMS: Final = {room: (_counts(fixed), _counts(loose)) for room, (fixed, loose) in _ROOMS.items()}
#: object type -> receptacle type or ``floor`` -> preference
PLACES: Final = {
    name.strip(): weights(places)
    for name, places in (entry.split(":") for entry in _PLACES.split(";") if entry.strip())
}
