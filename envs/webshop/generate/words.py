"""What generated products are called, and what they come in. All names are made up.

Attributes of one kind share no word with each other nor with its name, and no value of an option is made of others or
holds a colour word beside others: so whether a product has what a goal asks for is as plain in the words as in the
reward's fuzzy arithmetic.
"""

from dataclasses import dataclass

BRANDS = (
    "Alderwick",
    "Brumstead",
    "Corvane",
    "Dellmoor",
    "Elmsgate",
    "Farrowby",
    "Glenhollow",
    "Hartvale",
    "Isenford",
    "Jorvane",
    "Kestwick",
    "Lindmere",
    "Marrowick",
    "Norbridge",
    "Oxendale",
    "Pellworth",
    "Quillbrook",
    "Ravensby",
    "Sorrelton",
    "Thornfield",
    "Umberley",
    "Velmont",
    "Wexmoor",
    "Yarrowdale",
)

DEPARTMENTS = {
    "beauty": "Beauty & Care",
    "electronics": "Electronics",
    "fashion": "Clothing & Shoes",
    "garden": "Home & Garden",
    "grocery": "Grocery & Food",
}


@dataclass(frozen=True)
class Kind:
    """A kind of product.

    Attributes:
        category: one of the five departments, by the original's short name.
        path: the category levels below the department, the widest first.
        query: the plural: the search by which the original's catalogue was gathered, and what goals ask for.
        noun: the singular, which titles bear.
        attributes: what such a product may be or have.
        options: names of choices -> all the values that there are.
        prices: (least, most) in whole dollars.
    """

    category: str
    path: tuple[str, ...]
    query: str
    noun: str
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    prices: tuple[int, int]


_COLOURS = ("black", "blue", "green", "grey", "orange", "pink", "purple", "red", "white", "yellow")
_SIZES = ("small", "medium", "large")
_BEDS = ("twin", "full", "queen", "king")
_FLAVOURS = ("banana", "cherry", "ginger", "honey", "lemon", "peach", "vanilla")
_SCENTS = ("cedar", "jasmine", "lavender", "lilac", "lime", "rose", "sage")
_LENGTHS = ("3 feet", "6 feet", "9 feet", "12 feet")
_PACKS = ("single", "pair", "trio", "dozen")

_SKIN = ("fragrance free", "cruelty safe", "long lasting", "shea butter", "daily moisture", "sensitive skin")
_HAIR = ("dry scalp", "argan extract", "gentle formula", "deep repair", "salon grade", "frizz control")
_CABLE = ("fast charging", "gold plated", "braided nylon", "heavy duty", "high speed", "tangle proof")
_SOUND = ("noise reduction", "battery powered", "easy pairing", "carry strap", "splash resistant", "rich bass")
_WEAR = ("machine wash", "slim fit", "quick dry", "soft lining", "cotton blend", "zip pockets")
_SHOE = ("rubber sole", "arch support", "breathable mesh", "memory insole", "slip resistant", "side laces")
_ROOM = ("solid oak", "space saving", "storage drawer", "folding legs", "scratch proof", "easy assembly")
_CLOTH = ("stain resistant", "hand woven", "hidden zipper", "thermal layer", "pet friendly", "fade proof")
_SNACK = ("sugar free", "plant based", "high fiber", "low sodium", "wrapped singly", "resealable bag")
_DRINK = ("fair trade", "caffeine reduced", "whole leaf", "hand picked", "freeze dried", "mild taste")

_WORN = {"color": _COLOURS, "size": _SIZES}

KINDS = (
    Kind("beauty", ("Skin", "Face Creams"), "face creams", "face cream", _SKIN, {"scent": _SCENTS}, (8, 40)),
    Kind(
        "beauty", ("Skin", "Soaps"), "bath soaps", "bath soap", _SKIN, {"scent": _SCENTS, "quantity": _PACKS}, (5, 20)
    ),
    Kind("beauty", ("Hair", "Shampoos"), "shampoos", "shampoo", _HAIR, {"scent": _SCENTS, "size": _SIZES}, (6, 30)),
    Kind("beauty", ("Hair", "Oils"), "hair oils", "hair oil", _HAIR, {"scent": _SCENTS}, (9, 35)),
    Kind(
        "electronics", ("Cables", "Chargers"), "phone chargers", "phone charger", _CABLE, {"color": _COLOURS}, (9, 45)
    ),
    Kind(
        "electronics",
        ("Cables", "Video Cables"),
        "video cables",
        "video cable",
        _CABLE,
        {"length": _LENGTHS, "quantity": _PACKS},
        (7, 40),
    ),
    Kind("electronics", ("Audio", "Speakers"), "desk speakers", "desk speaker", _SOUND, {"color": _COLOURS}, (25, 140)),
    Kind(
        "electronics",
        ("Audio", "Headphones"),
        "headphones",
        "headphone",
        _SOUND,
        {"color": _COLOURS, "size": _SIZES},
        (20, 130),
    ),
    Kind("fashion", ("Outerwear", "Jackets"), "rain jackets", "rain jacket", _WEAR, _WORN, (30, 110)),
    Kind("fashion", ("Outerwear", "Vests"), "hiking vests", "hiking vest", _WEAR, _WORN, (20, 80)),
    Kind("fashion", ("Shoes", "Sneakers"), "sneakers", "sneaker", _SHOE, _WORN, (25, 120)),
    Kind("fashion", ("Shoes", "Sandals"), "beach sandals", "beach sandal", _SHOE, {"color": _COLOURS}, (12, 60)),
    Kind("garden", ("Furniture", "Desks"), "writing desks", "writing desk", _ROOM, {"color": _COLOURS}, (70, 180)),
    Kind(
        "garden",
        ("Furniture", "Cabinets"),
        "shoe cabinets",
        "shoe cabinet",
        _ROOM,
        {"color": _COLOURS, "size": _SIZES},
        (60, 170),
    ),
    Kind("garden", ("Bedding", "Quilts"), "quilts", "quilt", _CLOTH, {"color": _COLOURS, "size": _BEDS}, (35, 140)),
    Kind(
        "garden", ("Bedding", "Pillows"), "pillows", "pillow", _CLOTH, {"color": _COLOURS, "quantity": _PACKS}, (12, 60)
    ),
    Kind("grocery", ("Snacks", "Bars"), "fruit bars", "fruit bar", _SNACK, {"flavor": _FLAVOURS}, (5, 30)),
    Kind(
        "grocery",
        ("Snacks", "Cookies"),
        "cookies",
        "cookie",
        _SNACK,
        {"flavor": _FLAVOURS, "quantity": _PACKS},
        (5, 35),
    ),
    Kind("grocery", ("Drinks", "Teas"), "herbal teas", "herbal tea", _DRINK, {"flavor": _FLAVOURS}, (6, 30)),
    Kind("grocery", ("Drinks", "Coffees"), "coffees", "coffee", _DRINK, {"flavor": _FLAVOURS, "size": _SIZES}, (8, 40)),
)
