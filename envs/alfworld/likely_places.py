"""Where a thing is likely to be found: common sense as a small table, used by the searching expert alone.

The levels, from 1 to 9, are set by hand, one row for all things that are kept alike. They rank kinds of receptacle;
they are no counts, but whoever set them had looked at where things lie in the official train games (and at no others),
and at success and steps there. What a row leaves out gets `ELSEWHERE`: nothing is ruled out.
"""

ELSEWHERE = 0.1

_TABLE = """
apple egg potato tomato: countertop 8 fridge 9 diningtable 6 garbagecan 3 microwave 3 sinkbasin 4 sidetable 1
bread: countertop 9 diningtable 6 fridge 4
lettuce: countertop 9 diningtable 6 fridge 6 sinkbasin 1
bowl plate: cabinet 8 countertop 7 diningtable 5 fridge 4 shelf 2 sinkbasin 1 desk 1
cup glassbottle: cabinet 7 countertop 7 diningtable 4 fridge 4 sinkbasin 3 microwave 2 shelf 1 garbagecan 1
mug: countertop 7 coffeemachine 6 cabinet 4 fridge 3 diningtable 4 microwave 2 desk 3 sinkbasin 1 shelf 2 sidetable 2
winebottle: countertop 8 cabinet 6 diningtable 5 garbagecan 2 shelf 1 fridge 1
butterknife knife: countertop 9 diningtable 6 drawer 4 sinkbasin 1
fork spoon spatula ladle: countertop 9 diningtable 5 drawer 5 sinkbasin 2 cabinet 1
pan pot: stoveburner 9 countertop 5 cabinet 1 diningtable 1 fridge 1
kettle: stoveburner 8 countertop 6 cabinet 4 diningtable 1
saltshaker peppershaker: countertop 8 cabinet 6 diningtable 4 drawer 3 shelf 1
dishsponge: countertop 7 cabinet 4 drawer 4 sinkbasin 3 diningtable 2 garbagecan 1 shelf 1 bathtubbasin 1
papertowelroll: countertop 9 garbagecan 3 diningtable 3 shelf 2
cloth: bathtubbasin 7 countertop 5 cabinet 4 drawer 3 sinkbasin 2 shelf 1 toilet 1
handtowel: handtowelholder 9 countertop 1
towel: towelholder 9 countertop 1
soapbar: countertop 6 toilet 5 sinkbasin 5 bathtubbasin 5 cabinet 3 drawer 2 garbagecan 2 shelf 1
soapbottle: countertop 8 cabinet 5 diningtable 4 toilet 4 garbagecan 4 shelf 2 drawer 1
spraybottle: countertop 8 toilet 8 cabinet 4 garbagecan 4 shelf 2 cart 2 drawer 1
toiletpaper: toilet 8 countertop 7 toiletpaperhanger 6 garbagecan 4 cabinet 3 drawer 3 shelf 2
candle: countertop 8 toilet 8 shelf 3 drawer 3 cabinet 3 coffeetable 2 sidetable 2
tissuebox: shelf 5 coffeetable 5 countertop 5 sidetable 4 diningtable 4 desk 4 drawer 3 toilet 1 tvstand 1 dresser 1
alarmclock: desk 9 sidetable 7 dresser 6 shelf 4 diningtable 2
desklamp: desk 9 sidetable 9 dresser 6 shelf 2 coffeetable 1 diningtable 1
floorlamp: coffeetable 3 sidetable 3 desk 3
book: bed 9 desk 6 dresser 3 sidetable 3 coffeetable 3 countertop 4 diningtable 3 drawer 2 sofa 2 shelf 1 cabinet 1
laptop: bed 9 desk 6 sofa 5 coffeetable 5 diningtable 5 dresser 3 sidetable 2 armchair 2
pillow: bed 9 sofa 9 armchair 5 ottoman 1
teddybear: bed 9 sofa 1
cellphone: bed 8 desk 6 dresser 4 sidetable 5 diningtable 4 countertop 4 drawer 5 shelf 2 coffeetable 3 \
  sofa 2 armchair 2
cd: desk 8 drawer 6 dresser 6 sidetable 6 garbagecan 4 shelf 3 diningtable 2 safe 1
pen pencil: desk 8 sidetable 6 dresser 6 drawer 5 shelf 4 diningtable 4 coffeetable 3 countertop 2 garbagecan 1
creditcard keychain: sidetable 6 dresser 6 desk 6 drawer 5 sofa 5 armchair 5 coffeetable 5 diningtable 4 \
  shelf 3 countertop 3 safe 2 tvstand 2
watch: coffeetable 7 sidetable 6 dresser 6 diningtable 5 drawer 5 tvstand 4 shelf 2 desk 3 safe 1
remotecontrol: coffeetable 8 sofa 7 sidetable 5 armchair 5 tvstand 5 diningtable 5 dresser 4 drawer 3 ottoman 2 desk 2
newspaper: coffeetable 7 sofa 7 diningtable 6 sidetable 5 armchair 4 shelf 3 dresser 3 ottoman 2 tvstand 2
box: coffeetable 7 sofa 7 diningtable 7 sidetable 3 shelf 2 desk 3 dresser 2 armchair 2 cabinet 1
statue vase: shelf 6 coffeetable 6 countertop 4 diningtable 4 sidetable 4 dresser 4 tvstand 3 cabinet 2 desk 1 safe 1
wateringcan: coffeetable 7 shelf 4 sidetable 3
baseballbat basketball tennisracket: bed 5 desk 3 dresser 2 armchair 2
"""


def _read(table: str) -> dict[str, dict[str, float]]:
    likely = {}
    for row in table.strip().splitlines():
        things, _, places = row.partition(": ")
        words = places.split()
        levels = {place: float(level) for place, level in zip(words[::2], words[1::2], strict=True)}
        likely.update(dict.fromkeys(things.split(), levels))
    return likely


#: Level by kind of thing and kind of receptacle, e.g. LIKELY["mug"]["coffeemachine"].
LIKELY = _read(_TABLE)

#: Kinds of receptacle that have doors, lids or fronts, and are usually found closed.
DOORS = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})


def likelihood(thing: str, receptacle: str) -> float:
    """Return how likely a kind of thing is to lie in a kind of receptacle, on a scale of 0.1 to 9."""
    return LIKELY.get(thing, {}).get(receptacle, ELSEWHERE)
