"""Values: what people name when they ask for something."""

import tomllib
from pathlib import Path

from .words import clock, delay

# The system's manifest: which services and programs there are.
MANIFEST = tomllib.loads((Path(__file__).parents[4] / "iso_root/etc/manifest.toml").read_text(encoding="utf-8"))

# One in five of these words is never trained on.
WORDS = """
apple anchor autumn badge barley basket beacon birch bottle branch breeze bridge bronze bucket button cabin cactus
camera candle canvas carbon carpet castle cedar cellar chalk cherry circle cliff clock clover coffee comet copper
coral cotton crane crystal curtain daisy desert diary dolphin dragon drawer eagle ember engine falcon feather fern
fiddle field flame flute forest fossil garden garlic ginger glacier globe granite guitar hammer harbor hazel helmet
heron honey island ivory jacket jasmine jewel kettle kitten ladder lagoon lantern lemon letter lilac linen lobster
lotus magnet maple marble meadow melon mirror mitten monsoon morning mountain needle nickel oasis ocean olive onion
orchid otter oyster paddle palace panda parcel parrot pearl pebble pencil pepper piano pigeon pillow planet plum
pocket pony poplar potato prairie pumpkin quartz quilt rabbit radish raven ribbon river rocket saddle saffron sailor
salmon sandal satin season shadow shell silver sparrow spider spring statue stone storm summer sunset table temple
thunder ticket tiger timber tomato tulip tunnel turtle valley velvet violin walnut walrus water whistle willow window
winter wizard yarrow zebra zephyr budget report invoice meeting recipe travel project summary schedule contact holiday
shopping homework journal draft
""".split()

EXTENSIONS = ["txt", "md", "log", "csv", "toml", "json", "conf", "text"]
FOLDERS = ["notes", "docs", "work", "archive", "letters", "backup", "reports", "music", "photos", "old", "new", "tmp"]
SERVICES = [service["name"] for service in MANIFEST["service"]]
PROGRAMS = [program["name"] for program in MANIFEST["program"]]
PEOPLE = "ada bob clara david emma felix grace henry iris jonas kira leo mia noah olga paul rosa sam tina uma".split()

_ONSETS = "b c d f g h j k l m n p r s t v w z br cr dr fl gr kl pl pr sk st tr sh ch qu x".split()
_VOWELS = "a e i o u ai ou ee y".split()
_CODAS = ["", "", "", "n", "r", "s", "l", "m", "x", "k", "t", "nd", "rk"]


# What people have themselves reminded to do.
ERRANDS = "call ask buy feed fetch check close open wash water send read clean sell move visit".split()
# What they set that rings later, and the words by which they only say that they want to hear something.
TIMERS = ["timer", "timer", "timer", "alarm", "alarm", "countdown", "egg timer", "kitchen timer", "alarm clock"]
WAKES = ["wake me", "wake me", "wake me up", "wake us", "remind me", "ping me", "alert me"]


class Values:
    """A source of values. With `held_out` the words are those that training never sees."""

    def __init__(self, random, held_out=False):
        self.random = random
        self.words = [word for at, word in enumerate(WORDS) if (at % 5 == 4) == held_out]

    def chance(self, share):
        return self.random.random() < share

    def choose(self, among):
        return self.random.choice(among)

    def gibberish(self, syllables=None):
        """An unknown word."""
        count = syllables or self.random.randint(1, 3)
        parts = [self.choose(_ONSETS) + self.choose(_VOWELS) + self.choose(_CODAS) for _ in range(count)]
        return "".join(parts)

    def word(self):
        return self.gibberish(2) if self.chance(0.3) else self.choose(self.words)

    def name(self):
        """A name of a thing: a word, two, one with a number."""
        kind = self.random.random()
        if kind < 0.6:
            return self.word()
        if kind < 0.8:
            return self.word() + self.choose("-_") + self.word()
        return self.word() + str(self.random.randint(1, 99))

    def file_name(self):
        return f"{self.name()}.{self.choose(EXTENSIONS)}"

    def folder(self):
        base = self.choose(FOLDERS) if self.chance(0.5) else self.name()
        return f"{base}/{self.word()}" if self.chance(0.2) else base

    def file(self):
        if self.chance(0.08):
            return self.choose(["welcome.txt", "notes/plants.txt", "notes/today.txt"])
        return f"{self.folder()}/{self.file_name()}" if self.chance(0.4) else self.file_name()

    def service(self):
        return self.choose(SERVICES) if self.chance(0.75) else self.name()

    def program(self):
        return self.choose(PROGRAMS) if self.chance(0.75) else self.name()

    def sentence(self, least=1, most=6):
        """A short text to write."""
        count = self.random.randint(least, most)
        words = [self.choose(PEOPLE) if self.chance(0.1) else self.word() for _ in range(count)]
        text = " ".join(words)
        if self.chance(0.3):
            text = text[:1].upper() + text[1:]
        return text + (self.choose([".", "!"]) if self.chance(0.2) else "")

    def part(self):
        """What somebody who looks for a file knows of its name."""
        return self.file_name() if self.chance(0.4) else self.name()

    def name_pattern(self):
        """The form of names of files."""
        kind, end = self.random.random(), self.choose(EXTENSIONS)
        if kind < 0.75:
            return f"*.{end}"
        return f"{self.word()}*" if kind < 0.9 else f"*{self.word()}*"

    def phrase(self):
        """A short text to look for."""
        kind = self.random.random()
        if kind < 0.6:
            return self.word()
        return f"{self.word()} {self.word()}" if kind < 0.85 else self.name()

    def errand(self):
        """What to remind somebody to do."""
        return f"{self.choose(ERRANDS)} {self.about()}"

    def about(self):
        """What to remind somebody of."""
        return self.choose(PEOPLE) if self.chance(0.2) else f"{self.choose(['the', 'my', 'our'])} {self.word()}"

    def number(self):
        return self.choose([self.random.randint(1, 9), self.random.randint(10, 99), self.random.randint(100, 9999)])

    def slots(self, names, before=None):
        """Values for the open places of a pattern; `before` is the file that was talked about before, if there is one."""
        return {name: self.slot(name) for name in names}

    def slot(self, name):
        """A value for an open place of a pattern; a digit at its end distinguishes two of a kind."""
        kind = name.rstrip("0123456789")
        sources = {
            "path": self.file,
            "file": self.file_name,
            "folder": self.folder,
            "entry": lambda: self.folder() if self.chance(0.4) else self.file(),
            "service": self.service,
            "program": self.program,
            "text": self.sentence,
            "word": lambda: self.choose(PEOPLE) if self.chance(0.5) else self.word(),
            "seconds": lambda: self.choose([10, 20, 30, 45, 60, 90, 100, 120, 200, 300, 500, 600, 900, 1800]),
            "max": lambda: self.random.randint(2, 60),
            "number": lambda: self.random.randint(1, 40),
            "place": lambda: self.word().capitalize(),
            "name": self.name,
            "part": self.part,
            "pattern": self.name_pattern,
            "flag": lambda: f"-{self.choose('abcdefhilnpqrstuvx')}" if self.chance(0.4) else f"--{self.word()}",
            "phrase": self.phrase,
            "delay": lambda: delay(self.random),
            "clock": lambda: clock(self.random),
            "errand": self.errand,
            "about": self.about,
            "timer": lambda: self.choose(TIMERS),
            "wake": lambda: self.choose(WAKES),
        }
        return sources[kind]()
