"""Texts: slugs, wrapping, shortening, plurals."""

import re
import unicodedata

_IRREGULAR = {"child": "children", "person": "people", "mouse": "mice", "foot": "feet"}


def slug(text, separator="-", limit=None):
    """``text`` in lower case, words joined by ``separator``; at most ``limit`` characters, cut between words."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    if limit is None:
        return separator.join(words)
    out = ""
    for word in words:
        longer = out + separator + word if out else word
        if len(longer) > limit:
            break
        out = longer
    return out


def wrap(text, width):
    """Lines of at most ``width`` characters, broken between words; a longer word gets a line of its own."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    if line:
        lines.append(line)
    return lines


def shorten(text, width, mark="..."):
    """``text`` if it fits into ``width``, else its beginning with ``mark``, together ``width`` characters."""
    if len(text) <= width:
        return text
    if width < len(mark):
        raise ValueError(f"width must be at least {len(mark)}, got {width}")
    return text[: width - len(mark)] + mark


def plural(word, count=2):
    """The English plural of ``word``, unless ``count`` is 1."""
    if count == 1:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    return word + "s"


def initials(name):
    """``Ada King Lovelace`` -> ``AKL``."""
    return "".join(part[0].upper() for part in name.split())
