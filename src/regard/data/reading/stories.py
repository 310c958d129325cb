"""Synthetic stories in the words of bAbI's tasks 1 and 2: people walk between places, and may carry things.

Each is made from its number and a seed, the same on every machine. A question comes after every two sentences, as soon
as one can be answered.
"""

from dataclasses import dataclass, field

from regard.data.chance import Chance
from regard.data.reading.babi import Story, StoryLine
from regard.data.reading.settings import SyntheticStories
from regard.data.settings import Part

PEOPLE = ("Mary", "John", "Daniel", "Sandra")
PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
THINGS = ("apple", "football", "milk")
GO = ("went", "went back", "journeyed", "moved", "travelled")
TAKE = ("got", "grabbed", "picked up", "took")
DROP = ("discarded", "dropped", "left", "put down")

_MOVES, _TAKES = 0.5, 0.76
"""Draws below the first are walks, below the second takes, else drops, if somebody is able to: near bAbI's shares."""


def synthetic_story(settings: SyntheticStories, seed: int, part: Part, number: int) -> Story:
    """Story number n of a part."""
    chance = Chance("stories", settings.facts, part, seed, number)
    lines: list[StoryLine] = []
    world = _World(chance)
    asked = 0
    while asked < settings.questions:
        for _ in range(2):
            lines.append(StoryLine(world.walk(len(lines)) if settings.facts == 1 else world.event(len(lines))))
        known = world.known_people() if settings.facts == 1 else world.known_things()
        if known:
            name, place, supports = chance.choose(known)
            what = name if settings.facts == 1 else f"the {name}"
            lines.append(StoryLine(f"Where is {what}?", True, place, supports))
            asked += 1
    return Story(tuple(lines), f"made story {number}")


Known = tuple[str, str, tuple[int, ...]]
"""Who or what, where, and the lines that say it."""


@dataclass
class _Thing:
    """Where a thing is: with somebody, or at a place.

    Attributes:
        place: where it is, or was taken.
        holder: who has it.
        event: the line that says it was taken or dropped.
        moved: the line of the last move of whoever dropped it, which says where it is.
    """

    place: str
    holder: str | None = None
    event: int | None = None
    moved: int | None = None


@dataclass
class _World:
    """People and things; the story does not say where they are at first."""

    chance: Chance
    places: dict[str, str] = field(init=False)
    moves: dict[str, int] = field(default_factory=dict)
    things: dict[str, _Thing] = field(init=False)

    def __post_init__(self) -> None:
        self.places = {person: self.chance.choose(PLACES) for person in PEOPLE}
        self.things = {name: _Thing(self.chance.choose(PLACES)) for name in THINGS}

    def walk(self, line: int) -> str:
        """Somebody goes to another place."""
        person = self.chance.choose(PEOPLE)
        place = self.chance.choose([one for one in PLACES if one != self.places[person]])
        self.places[person], self.moves[person] = place, line
        return f"{person} {self.chance.choose(GO)} to the {place}."

    def event(self, line: int) -> str:
        """Somebody goes, takes or drops; what nobody can do is drawn again."""
        while True:
            drawn = self.chance()
            if drawn < _MOVES:
                return self.walk(line)
            drops = drawn >= _TAKES
            able = [
                (person, name)
                for person in PEOPLE
                for name, one in self.things.items()
                if (one.holder == person if drops else one.holder is None and one.place == self.places[person])
            ]
            if able:
                return (self._drop if drops else self._take)(*self.chance.choose(able), line)

    def known_people(self) -> list[Known]:
        """Everybody who has moved, by the last move."""
        return [(person, self.places[person], (line,)) for person, line in self.moves.items()]

    def known_things(self) -> list[Known]:
        """What was dropped where somebody was known to be, or carried somewhere since it was taken."""
        known: list[Known] = []
        for name, one in self.things.items():
            if one.event is None:
                continue
            if one.holder is None and one.moved is not None:
                known.append((name, one.place, (one.event, one.moved)))
            elif one.holder is not None and self.moves.get(one.holder, -1) > one.event:
                known.append((name, self.places[one.holder], (one.event, self.moves[one.holder])))
        return known

    def _take(self, person: str, name: str, line: int) -> str:
        self.things[name] = _Thing(self.places[person], person, line)
        return f"{person} {self.chance.choose(TAKE)} the {name} there."

    def _drop(self, person: str, name: str, line: int) -> str:
        self.things[name] = _Thing(self.places[person], None, line, self.moves.get(person))
        there = " there" if self.chance() < 0.2 else ""
        return f"{person} {self.chance.choose(DROP)} the {name}{there}."


def synthetic_stories(settings: SyntheticStories, seed: int, part: Part) -> list[Story]:
    """As many stories of a part as the settings say."""
    return [synthetic_story(settings, seed if settings.seed is None else settings.seed, part, number)
            for number in range(settings.count)]  # fmt: skip
