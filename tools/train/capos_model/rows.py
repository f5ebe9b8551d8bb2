"""Rows of training: tokens, their positions, which tokens they see, their targets and the targets' weights.

Everything about a step follows from the seed and the number of the step.
"""

import random
from array import array
from dataclasses import dataclass, field

from . import render
from .corpus.drills import Drills
from .corpus.groups import GENERIC_SETS, GroupGenerator
from .render import INVOKE, TOOL

LENGTH = 1024
# The weight of a mark or a word that selects one thing among several; every other token counts one.
DECISION = 3.0
# Conversations that may find no room before a row counts as full.
_TRIES = 4
# The same for a row without any conversation yet, whose tools leave little room.
_MOST_TRIES = 40
# Some conversations are apart from their tools, as if there were more between them: how many of a hundred, how far.
_APART, _FARTHEST = 12, 900


@dataclass
class Rows:
    """The rows of one step, one after the other."""

    tokens: array = field(default_factory=lambda: array("q"))
    positions: array = field(default_factory=lambda: array("q"))
    branches: array = field(default_factory=lambda: array("q"))
    targets: array = field(default_factory=lambda: array("q"))
    weights: array = field(default_factory=lambda: array("f"))

    def add(self, row, length):
        """Another row, filled up to a length."""
        room = length - len(row.tokens)
        # Tokens that fill a row see themselves and count nothing.
        self.tokens.extend(row.tokens + [0] * room)
        self.positions.extend(row.positions + [0] * room)
        self.branches.extend(row.branches + [-1] * room)
        # A token's target is the one after it. If a conversation ends, the next begins with tokens that are not learnt.
        self.targets.extend(row.tokens[1:] + [0] * (room + 1))
        self.weights.extend(row.weights[1:] + [0.0] * (room + 1))


@dataclass
class Row:
    """A row that is being made."""

    tokens: list = field(default_factory=list)
    weights: list = field(default_factory=list)
    positions: list = field(default_factory=list)
    branches: list = field(default_factory=list)

    def put(self, tokens, weights, positions, branch):
        self.tokens += tokens
        self.weights += weights
        self.positions += positions
        self.branches += [branch] * len(tokens)


class Encoder:
    """Conversations as tokens and what each of them counts."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.invoke = tokenizer.marks[INVOKE]
        # The tools met last, and their lines.
        self._of, self._found = "", []

    def tools(self, tools):
        return self.tokenizer.encode(render.lines(tools))

    def samples(self, conversation):
        """The part after the tools: for each sample its tokens and their weights, zero if not learnt."""
        lines = self._lines(conversation.tools)
        for pieces in render.samples(conversation):
            tokens, weights = [], []
            for text, learnt in pieces:
                found = self.tokenizer.encode(text)
                tokens += found
                weights += self._weights(found, lines) if learnt else [0.0] * len(found)
            yield tokens, weights

    def _lines(self, tools):
        """The tokens of each tool's line, up to its name and with it."""
        text = render.lines(tools)
        if text != self._of:
            self._of, self._found = text, [self.tokenizer.encode(line.split("{")[0]) for line in text.split(TOOL)[1:]]
        return self._found

    def _weights(self, tokens, lines):
        """The weights of an answer's tokens: those that decide more weigh more."""
        weights = [1.0] * len(tokens)
        weights[0] = DECISION
        for start, token in enumerate(tokens):
            if token != self.invoke:
                continue
            weights[start] = DECISION
            among, depth = lines, 0
            while len(among) > 1 and start + 1 + depth < len(tokens):
                following = tokens[start + 1 + depth]
                left = [line for line in among if len(line) > depth and line[depth] == following]
                if len(left) < len(among):
                    weights[start + 1 + depth] = DECISION
                among, depth = left, depth + 1
        return weights


@dataclass(frozen=True)
class Kind:
    """The source of rows."""

    # Tokens of a row.
    length: int = LENGTH
    # The most tools of a set, and how many of a hundred sets are of tools that no system has; else the generator's.
    tools: int | None = None
    generic: int = GENERIC_SETS
    # How many of a hundred rows are drills.
    drills: int = 0


def rows(encoder, seed, step, count, kind=Kind()):
    """The rows of a step."""
    generator, found = GroupGenerator(f"{seed} {step}", kind.generic), Rows()
    places = random.Random(f"places {seed} {step}")
    drills = Drills(random.Random(f"drills {seed} {step}"))
    for _ in range(count):
        if places.randrange(100) < kind.drills:
            _drill_row(encoder, drills, kind.length, found)
        else:
            _row(encoder, generator, places, kind, found)
    return found


def _drill_row(encoder, drills, length, found):
    """Drills after one another, each with tools of its own: none sees another's."""
    row, branch = Row(), 0
    while True:
        drill = drills.draw()
        tools = encoder.tools(drill.tools)
        for sample, counted in encoder.samples(drill):
            tokens = tools + sample
            if len(row.tokens) + len(tokens) > length:
                found.add(row, length)
                return
            branch += 1
            row.put(tokens, [0.0] * len(tools) + counted, range(len(tokens)), branch)


def _row(encoder, generator, places, kind, found):
    """A set of tools, and conversations that all see it."""
    generator.draw(kind.tools)
    tools = encoder.tools(generator.tools)
    row, branch, tries = Row(), 0, 0
    row.put(tools, [0.0] * len(tools), range(len(tools)), 0)
    while tries < (_TRIES if branch else _MOST_TRIES):
        for sample, counted in encoder.samples(generator.conversation()):
            if len(row.tokens) + len(sample) > kind.length:
                tries += 1
                continue
            branch += 1
            first = len(tools)
            if places.randrange(100) < _APART:
                first += places.randrange(_FARTHEST)
            row.put(sample, counted, range(first, first + len(sample)), branch)
    found.add(row, kind.length)
