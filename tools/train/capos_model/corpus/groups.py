"""Groups: conversations about one set of tools, for rows of training that hold the tools once.

The tools are much of a request. A row of training has them once, followed by several conversations that see them and not
each other.
"""

import re

from . import contexts, own_tools, phrasing, repeats, second_turns, strangers
from .conversation import user
from .generator import CHAT, JOINTS, OPEN, Generator, followed_tools, forbid
from .phrasing import ROWS, TRAIN
from .typed import Typed, TypedMachine
from .values import SERVICES

# How many of a hundred sets are of made tools.
GENERIC_SETS = 15

# Classes and how many of a hundred conversations are of each: more of those that are hard to distinguish.
CLASSES = {
    "call": 48,
    "chain": 16,
    "parallel": 12,
    "followup": 32,
    "change": 12,
    "absent": 20,
    # Only if the set has forbidden tools.
    "forbidden": 16,
    "denied": 4,
    "error": 5,
    "chat": 26,
}


# Percentage of conversations of these classes in which only the calls are learnt: choosing the tool is harder than
# describing its result. In the others the model learns to make no further call.
CUT, CUT_CLASSES = 30, ("call",)


# Own tools that are requested more often than the others: those that take more than a name or a path.
SHARES = {"write_file": 6, "read_log": 2, "run_program": 2}
SHARES |= {"copy_file": 2, "move_file": 2, "find_files": 2, "search_files": 2, "remind": 3}


# How many of a hundred second turns have the call of the first with one argument other.
REPEATED = 25
# How much more often those are drawn that people say most often.
OFTEN_SHARE = 3
# How many of a hundred lists show a file that is asked for: the model sees the beginning of a long list.
LISTED = 60


# How long requests are, as people type them: the most words of a pattern, and how many of a hundred are of that length.
LENGTHS = {2: 11, 4: 16, 7: 24, 11: 21, 16: 14, None: 14}


# How often sets are those of a profile's sessions: most often the one with all tools.
PROFILES = {"operator": 4, "guest": 1, "anonymous": 1}


# What requests name that are about this machine.
NAMED = {"path", "path1", "path2", "folder", "service", "program"}


# Answers to requests that name nothing, and to those that forbid something.
UNDONE = {"which", "kept"}


# What stands between a question and another request, and around two requests in an order.
ASKED = [" and ", " also ", " then ", " and then ", " ", " also, ", " and also ", " after that ", " and please ", " finally, "]
ORDERED = [
    ("first ", ", then ", ""),
    ("first ", " then ", ""),
    ("first ", " and then ", ""),
    ("first, ", ", then ", ""),
    ("first ", ", second ", ""),
    ("first ", ", after that ", ""),
    ("first of all ", ", then ", ""),
    ("1. ", " 2. ", ""),
    ("1) ", " 2) ", ""),
    ("1: ", ", 2: ", ""),
    ("two things: ", ", ", ""),
    ("two things: ", " and ", ""),
    ("do two things: ", ", then ", ""),
    ("both please: ", "; ", ""),
    ("", ", ", " after that"),
    ("", ", ", " too"),
    ("", ", and ", " as well"),
]


# Numbers that people write as words.
NUMBERS = dict(enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1))
NUMBERS |= {15: "fifteen", 20: "twenty", 30: "thirty", 40: "forty", 50: "fifty"}


class Unfit(Exception):
    """The tools of the set are not those that such a conversation is about."""


class GroupGenerator(Generator):
    """Conversations of the training split about one set of tools, which `draw` chooses."""

    # Sets of tools are large, so of those requests that something offered could be taken for there are more.
    open_share = 50
    rows = True

    def __init__(self, seed, generic=GENERIC_SETS):
        super().__init__("train", seed, Typed, TypedMachine)
        self.generic_sets = generic
        self.tools, self.made = [], []
        self._asked = ([], [])
        self.contexts = contexts.Contexts(self.random, self.values)

    def draw(self, most=None):
        """Another set of tools, with an upper bound on their number."""
        generic = self.random.randrange(100) < self.generic_sets
        self.made, tools = [], []
        if generic:
            first = self.workshop.make()
            self.made = [first, *self.workshop.others([first], self.random.randint(1, min(6, (most or 9) - 1)))]
            if self.values.chance(0.25) and not most:
                tools = [own_tools.TOOLS[name] for name in self.random.sample(sorted(own_tools.TOOLS), 2)]
        elif self.values.chance(0.75) and not most:
            profile = self.random.choices(list(PROFILES), list(PROFILES.values()))[0]
            tools = list(own_tools.PROFILES[profile])
        else:
            count = self.random.randint(1, min(len(own_tools.TOOLS), most or 16))
            tools = [own_tools.TOOLS[name] for name in self.random.sample(sorted(own_tools.TOOLS), count)]
            if self.values.chance(0.2) and not most:
                self.made = self.workshop.others([], self.random.randint(1, 3))
        tools += [made.tool for made in self.made]
        if self.values.chance(0.01):
            self.made, tools = [], []
        if self.values.chance(0.7):
            self.random.shuffle(tools)
        if self.values.chance(0.25):
            share = self.random.uniform(0.1, 0.7)
            tools = [forbid(tool) if self.values.chance(share) else tool for tool in tools]
        self.tools = tools
        self._asked = self._those(False)

    def _those(self, forbidden):
        """Names of own tools and made tools that are forbidden, or that are not."""
        names = {tool.name for tool in self.tools if tool.forbidden == forbidden}
        made = [made for made in self.made if made.tool.name in names]
        return sorted(names & set(own_tools.TOOLS)), made

    def conversation(self, kind=None):
        """A conversation about the set; of any possible class if none is given."""
        while True:
            try:
                found = super().conversation(kind or self.random.choices(list(CLASSES), list(CLASSES.values()))[0])
                if found.kind in CUT_CLASSES and self.random.randrange(100) < CUT:
                    del found.messages[2:]
                return self._told(found)
            except Unfit:
                if kind:
                    raise

    def _told(self, found):
        """The conversation with a context around some of its requests."""
        for at, message in enumerate(found.messages):
            if message.role == "user" and self.values.chance(contexts.LATER if at else contexts.FIRST):
                behind = found.messages[at + 1 :]
                ends = next((end for end, later in enumerate(behind) if later.role == "user"), len(behind))
                calls = [call for later in behind[:ends] for call in later.calls]
                # Where the request names nothing, nothing else may be taken for its name.
                plain = at > 0 or not calls
                found.messages[at] = user(self.contexts.put(message.content, calls, plain))
        return found

    def _forbidden(self):
        self._asked = self._those(True)
        try:
            return super()._forbidden()
        finally:
            self._asked = self._those(False)

    # The tools are given.

    def _own_set(self, needed=(), without=()):
        return self.tools

    def _generic_set(self, made):
        return self.tools

    def _none_at_times(self, tools):
        return tools

    def _some_forbidden(self, tools, but=()):
        return tools

    # In the words of training, and in those that no set has.

    def _patterns(self, sections):
        return sections[TRAIN] + sections[ROWS]

    def _joint(self):
        return self.values.choose(JOINTS[TRAIN] + JOINTS[ROWS])

    def _paired(self, one, two):
        """Some pairs say what comes first, or ask a question first."""
        chance = self.random.random()
        if one.endswith("?") and chance < 0.5:
            return one + self.values.choose(ASKED) + two[:1].lower() + two[1:]
        # A first letter that is part of a value is not changed.
        if one[:1].islower() and chance > 0.88:
            start, joint, end = self.values.choose(ORDERED)
            # Nor does anything follow a full stop or question mark, which may be a text's.
            end = end if two[-1:].isalnum() else ""
            return start + one.rstrip(".?") + joint + two[:1].lower() + two[1:] + end
        return super()._paired(one, two)

    def _other_name(self, name):
        return self._any_of([other for other in self._asked[0] if other != name])

    def _said(self, text, values):
        """Small numbers may be words, and the dash in a service's name a space. A program's arguments are copied."""
        for slot, value in values.items():
            kind = slot.rstrip("0123456789")
            is_number = kind in ("max", "number") and "program" not in values
            if is_number and value in NUMBERS and self.values.chance(0.5):
                text = re.sub(rf"(?<![\w./-]){value}(?![\w./-])", NUMBERS[value], text)
            elif kind == "service" and "-" in str(value) and value in SERVICES and self.values.chance(0.25):
                text = text.replace(value, value.replace("-", " "))
        return text

    def _worded(self, pattern):
        while True:
            sentence = phrasing.hurried(phrasing.unquoted(super()._worded(pattern), self.random), self.random)
            if not phrasing.held_out(sentence) and not strangers.typed(sentence):
                return sentence

    # So the request is for the listed tools.

    def _one_of(self, patterns):
        """As long as people's requests are. Most patterns are sentences, and many requests are two or three words."""
        if not patterns:
            raise Unfit
        by_length = {}
        for pattern in patterns:
            length = next(most for most in LENGTHS if most is None or pattern.words <= most)
            by_length.setdefault(length, []).append(pattern)
        length = self.random.choices(list(by_length), [LENGTHS[length] for length in by_length])[0]
        return super()._one_of(by_length[length])

    def _any_of(self, found):
        if not found:
            raise Unfit
        return self.values.choose(found)

    def _generic(self):
        names, made = self._asked
        return self.random.randrange(len(names) + len(made) or 1) >= len(names)

    def _asked_name(self):
        return self._any_of([name for name in self._asked[0] for _ in range(SHARES.get(name, 1))])

    def _asked_made(self, roles=None, beside=None):
        found = [made for made in self._asked[1] if made is not beside]
        return self._any_of([made for made in found if not roles or made.action.roles == roles])

    def _possible(self, needed):
        return set(needed) <= set(self._asked[0])

    def _fitting(self, patterns, needed):
        """One of the possible patterns; how frequent a scene is does not depend on how many patterns it has."""
        scenes = {}
        for found in patterns:
            meant = dict(found.arguments)
            if self._possible(needed(meant)):
                scenes.setdefault((meant.get("after"), meant["scene"]), []).append(found)
        if not scenes:
            raise Unfit
        shares = [OFTEN_SHARE if scene in second_turns.OFTEN else 1 for after, scene in scenes]
        return self._one_of(self.random.choices(list(scenes.values()), shares)[0])

    def _second_pattern(self):
        possible = [pair for pair in repeats.WHAT if self._possible(followed_tools({"after": pair[0], "scene": pair[1]}))]
        if possible and self.random.randrange(100) < REPEATED:
            return repeats.pattern(self.random, self.values.choose(possible))
        return super()._second_pattern()

    def _is_listed(self):
        return self.random.randrange(100) < LISTED

    def _missing_name(self):
        there = {tool.name for tool in self.tools}
        return self._any_of([name for name in sorted(own_tools.TOOLS) if not own_tools.near(name) & there])

    def _missing_made(self):
        return self.workshop.others(self.made, 1)[0], self.tools

    def _open(self):
        """Half of them are about files, services and programs, as what the tools do is."""
        found = self._patterns(OPEN)
        if self.values.chance(0.5):
            found = [pattern for pattern in found if not NAMED.isdisjoint(pattern.slots())]
        return self._one_of(found)

    def _chat_pattern(self):
        """Half of them name nothing, or forbid something: what a network without them takes for a request."""
        found = self._patterns(CHAT)
        if self.values.chance(0.5):
            found = [pattern for pattern in found if dict(pattern.arguments)["answer"] in UNDONE]
        return self._one_of(found)

    def _absent(self):
        """If no own tool is missing, the request is for an action without a tool."""
        while True:
            try:
                found = super()._absent()
            except Unfit:
                continue
            # Tools that might serve the request are left out of it; here all of them stay.
            if len(found.tools) == len(self.tools):
                return found
