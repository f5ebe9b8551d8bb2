"""Names and things to look for, made of the word lists in `data/words.txt` and `data/english.txt`, for rows of training.

So many different ones that a model cannot learn them by heart: it has to copy them.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).parents[2] / "data"
_FILES = ("words.txt", "english.txt")
# How files of such names end.
_ENDS = """txt txt md csv log doc docx odt pdf xls xlsx ods ppt json xml yaml yml toml ini cfg conf sql db dat tsv fasta fastq bam svg png
    jpg jpeg gif tif bmp psd dxf stl gcode wav mp3 flac mid mp4 mov avi zip tar tgz gz 7z rar iso key pem crt asc vcf ics eml tex
    bib html css js ts py rs go c cpp h java php rb sh bat ps1 bak old tmp lock part orig core service timer""".split()
_MONTHS = "January February March April May June July August September October November December".split()
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CODES = ["{u}-{n}", "{u}{n}", "{u}{u}-{n}", "{u}{u}{n}", "{n}-{u}", "{u}-{y}-{n}", "#{n}", "{u}.{n}"]


@cache
def read():
    """The lists by name."""
    lists = {}
    lines = [line for name in _FILES for line in (_FOLDER / name).read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line.startswith("["):
            current = lists.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            # An underscore joins what is one name.
            current += line.split()
    return lists


class Words:
    """A source of names."""

    def __init__(self, random):
        self.random = random

    def word(self, *kinds):
        """A word of one of these lists."""
        return self.random.choice(read()[self.random.choice(kinds)])

    def _chance(self, share):
        return self.random.random() < share

    def code(self):
        """A letter or two with a number, as of a sample, a room or a customer."""
        form = self.random.choice(_CODES).replace("{u}", "{}")
        number = str(self.random.randint(1, 10 ** self.random.randint(1, 4)))
        form = form.replace("{n}", number).replace("{y}", str(self.random.randint(2015, 2032)))
        return form.format(*(self.random.choice(_LETTERS) for _ in range(form.count("{}"))))

    def date(self):
        """A day or a month as names of files have it."""
        year, month, day = self.random.randint(1998, 2032), self.random.randint(1, 12), self.random.randint(1, 28)
        forms = ["{0}-{1:02}-{2:02}", "{0}-{1:02}", "{0}{1:02}{2:02}", "{0}_{1:02}_{2:02}", "{1:02}{2:02}", "{0}-w{2}", "{0}-q{3}", "Q{3}-{0}"]
        return self.random.choice(forms).format(year, month, day, (month + 2) // 3)

    def _part(self):
        kind = self.random.random()
        if kind < 0.25:
            # Any word may be in a name, so none of them tells what is asked for.
            return self.word("english")
        if kind < 0.62:
            return self.word("nouns")
        if kind < 0.72:
            return self.word("adjectives")
        if kind < 0.78:
            return self.word("verbs")
        if kind < 0.9:
            return self.word("surnames", "firstnames", "towns").lower()
        return self.code().lower().lstrip("#")

    def stem(self):
        """What names a file or folder."""
        parts = [self._part() for _ in range(self.random.choices([1, 2, 3], [50, 40, 10])[0])]
        if self._chance(0.25):
            parts.append(self.date() if self._chance(0.6) else str(self.random.randint(1, 300)))
        style = self.random.random()
        if style < 0.2:
            parts = [part[:1].upper() + part[1:] for part in parts]
        elif style < 0.25:
            parts = [part.upper() for part in parts]
        elif style < 0.32:
            parts[0] = parts[0][:1].upper() + parts[0][1:]
        joint = self.random.choice(["-", "-", "_", "_", "."] if style > 0.07 else [""])
        stem = joint.join(parts)
        return f"{stem}({self.random.randint(1, 4)})" if self._chance(0.02) else stem

    def file_name(self):
        stem = self.code().lstrip("#") if self._chance(0.07) else self.stem()
        if self._chance(0.06):
            return stem
        end = self.random.choice(_ENDS)
        return f"{stem}.{end.upper() if self._chance(0.03) else end}"

    def folder(self):
        def one():
            if self._chance(0.15):
                return str(self.random.choice([self.random.randint(1995, 2032), self.date(), self.random.choice(_MONTHS)]))
            return self.stem()

        return "/".join(one() for _ in range(self.random.choices([1, 2, 3], [70, 25, 5])[0]))

    def service(self):
        """A name of a service: what it is for, and what it does."""
        kind = self.random.random()
        if kind < 0.15:
            name = self.word("things", "nouns", "english")
        elif kind < 0.25:
            name = self.word("things", "nouns", "verbs") + "d"
        elif kind < 0.9:
            name = self.word("things", "things", "nouns") + self.random.choice("---_") + self.word("roles", "roles", "nouns")
        else:
            name = self.word("nouns") + self.random.choice(["", "-"]) + str(self.random.randint(1, 12))
        return name[:1].upper() + name[1:] if self._chance(0.05) else name

    def program(self):
        """A name of a program."""
        kind = self.random.random()
        if kind < 0.25:
            name = self.word("verbs", "nouns", "english")
        elif kind < 0.6:
            name = self.word("verbs") + self.random.choice("---_") + self.word("nouns", "things")
        elif kind < 0.85:
            name = self.word("nouns", "things") + self.random.choice("---_") + self.word("verbs", "roles")
        else:
            name = self.word("nouns") + str(self.random.randint(2, 9))
        return name + self.random.choice([".sh", ".py", ".pl", ".exe"]) if self._chance(0.08) else name

    def person(self):
        """A person as texts name them."""
        kind, surname = self.random.random(), self.word("surnames")
        if kind < 0.3:
            return f"{self.word('titles')}{self.random.choice(['', '', '.'])} {surname}"
        if kind < 0.6:
            return f"{self.word('firstnames')} {surname}"
        return self.word("surnames", "firstnames")

    def phrase(self):
        """What people look for in texts."""
        kind = self.random.random()
        if kind < 0.2:
            return self.word("nouns", "english")
        if kind < 0.36:
            return f"{self.word('adjectives', 'nouns')} {self.word('nouns')}"
        if kind < 0.42:
            return f"{self.word('nouns')} {self.random.choice(['of', 'for', 'in', 'and', 'to', 'by', 'on', 'out of'])} {self.word('nouns')}"
        if kind < 0.58:
            return self.person()
        if kind < 0.68:
            return self.word("companies").replace("_", " ")
        if kind < 0.73:
            return self.word("towns")
        if kind < 0.85:
            return self.word("identifiers")
        if kind < 0.9:
            return self.code()
        if kind < 0.93:
            return ".".join(str(self.random.randint(0, 255)) for _ in range(4))
        if kind < 0.97:
            digits = [str(self.random.randint(10, 9999)) for _ in range(self.random.randint(1, 3))]
            return self.random.choice("-- /").join(digits)
        return f"{self.word('verbs')} the {self.word('nouns')}"

    def part(self):
        """What somebody knows of a file's name."""
        kind = self.random.random()
        if kind < 0.5:
            return self.word("nouns")
        if kind < 0.65:
            return self.word("surnames", "firstnames", "towns", "companies").split("_")[0]
        if kind < 0.8:
            return self.stem()
        return self.date() if kind < 0.9 else self.code().lstrip("#")

    def name_pattern(self):
        """The form of names of files."""
        if self._chance(0.7):
            return f"*.{self.random.choice(_ENDS)}"
        stem = self.word("nouns")
        return self.random.choice([f"{stem}*", f"*{stem}*", f"{stem}-*", f"*_{stem}.*", f"{stem}*.{self.random.choice(_ENDS)}"])

    def flag(self):
        """An option of a program."""
        if self._chance(0.35):
            return f"-{self.random.choice('abcdefghiklmnopqrstuvwxyzAFLNPRSTVX')}"
        return f"--{self.word('options')}"


# Units of time with their seconds, and the most that people say of each: for one and for several, and behind a number.
_UNITS = [("second", "seconds", "s", 1, 90), ("minute", "minutes", "min", 60, 90), ("minute", "mins", "m", 60, 45)]
_UNITS += [("hour", "hours", "h", 3600, 72), ("hour", "hrs", "hr", 3600, 24), ("day", "days", "d", 86400, 30), ("week", "weeks", "w", 604800, 6)]
_SPOKEN = "one two three four five six seven eight nine ten eleven twelve".split()


class Duration(NamedTuple):
    """A time in seconds, and how people say it."""

    seconds: int
    said: str

    def __str__(self):
        return self.said


def meant(value):
    """A value as an argument: of a time its seconds."""
    return value.seconds if isinstance(value, Duration) else value


def duration(random):
    """A time of the past."""
    one, several, short, seconds, most = random.choice(_UNITS)
    if random.random() < 0.15:
        return Duration(seconds, one)
    if seconds >= 3600 and random.random() < 0.12:
        return Duration(seconds // 2, f"half {'an' if one == 'hour' else 'a'} {one}")
    count = random.randint(2, most)
    if random.random() < 0.25:
        return Duration(count * seconds, f"{count}{random.choice(['', ' '])}{short}")
    said = _SPOKEN[count - 1] if count <= len(_SPOKEN) and random.random() < 0.5 else str(count)
    return Duration(count * seconds, f"{said} {several}")


# Times from now on that are not a number with a unit.
_DELAYS = {"a minute": 60, "an hour": 3600, "one hour": 3600, "half an hour": 1800, "a quarter of an hour": 900, "three quarters of an hour": 2700}
_DELAYS |= {"an hour and a half": 5400, "one and a half hours": 5400, "two and a half hours": 9000, "a couple of minutes": 120}
_DELAYS |= {"a couple of hours": 7200, "1.5 hours": 5400, "1h 30m": 5400, "1h30m": 5400, "2h30m": 9000}
_ROUND = [1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 45, 60, 90]
_TENS = {15: "fifteen", 20: "twenty", 30: "thirty", 40: "forty", 50: "fifty"}
# Units with their seconds, the ways to write them behind digits, and the most that people say of each.
_DELAY_UNITS = [("second", ["s", " s", " sec", " secs"], 1, 90), ("minute", ["m", "min", " min", " mins"], 60, 120)]
_DELAY_UNITS += [("hour", ["h", " h", "hrs", " hrs"], 3600, 23)]


def delay(random):
    """A time from now on, at most a day."""
    if random.random() < 0.2:
        said = random.choice(list(_DELAYS))
        return Duration(_DELAYS[said], said)
    unit, short, seconds, most = random.choices(_DELAY_UNITS, [15, 60, 25])[0]
    count = random.choice(_ROUND) if random.random() < 0.6 else random.randint(1, most)
    count = min(count, most)
    if random.random() < 0.35:
        return Duration(count * seconds, f"{count}{random.choice(short)}")
    words = _TENS | dict(enumerate(_SPOKEN, 1))
    said = words[count] if count in words and random.random() < 0.4 else str(count)
    return Duration(count * seconds, f"{said} {unit}{'' if count == 1 else 's'}")


def clock(random):
    """A time of the day in a form that the tool for reminders takes."""
    hour = random.randint(0, 23)
    minute = random.choice([0, 0, 0, 15, 30, 30, 45, random.randint(0, 59)])
    half = "am" if hour < 12 else "pm"
    forms = ["{0}:{1:02}", "{0}:{1:02}", "{0:02}:{1:02}", "{2}:{1:02}{3}", "{2}:{1:02} {3}"]
    if minute == 0:
        forms += ["{2}{3}", "{2} {3}"]
    return random.choice(forms).format(hour, minute, hour % 12 or 12, half)
