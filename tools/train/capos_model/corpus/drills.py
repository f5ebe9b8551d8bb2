"""Drills: the shortest requests that take looking, with which training begins.

Tools, requests and values are words without meaning, drawn anew each time. Nothing of them can be known by heart: the
request's words occur in one of the lines, which names the tool, and the answer is that line with the request's value
in it. A network that has begun with conversations learns the lines of capOS's own tools by heart instead, and never
to look.
"""

from . import answers
from .conversation import Call, Conversation, Tool, forbidden, invoke, none, user
from .generator import forbid
from .values import Values

# Of a hundred drills: those whose tool is forbidden, those whose tool is not there, those whose lines share words.
FORBIDDEN, ABSENT, SHARED = 12, 12, 50
# The most tools of a drill.
TOOLS = 4


class Drills:
    """A source of drills; the same randomness gives the same ones."""

    def __init__(self, random):
        self.random = random
        self.values = Values(random)

    def draw(self):
        """A conversation of one turn."""
        heads = self._heads(self.random.randint(2, TOOLS))
        tools = [self._tool(words) for words in heads]
        asked = self.random.randrange(len(tools))
        kind = self.random.randrange(100)
        value = self.values.name()
        text = user(self._request(heads[asked], value))
        tool = tools[asked]
        if kind < FORBIDDEN:
            tools[asked] = tool = forbid(tool)
            return Conversation("forbidden", tools, [text, forbidden(tool.name, answers.forbidden(tool))])
        if kind < FORBIDDEN + ABSENT:
            del tools[asked]
            return Conversation("absent", tools, [text, none(answers.NO_TOOL)])
        arguments = {name: value for name in tool.required}
        return Conversation("call", tools, [text, invoke(Call(tool.name, arguments))])

    def _heads(self, count):
        """The words of each line's description; no two lines have the same."""
        if self.random.randrange(100) >= SHARED:
            words = self._words(3 * count)
            return [[words.pop() for _ in range(self.random.randint(1, 3))] for _ in range(count)]
        firsts, seconds = self._words(2), self._words(2)
        pairs = [[first, second] for first in firsts for second in seconds]
        return self.random.sample(pairs, count)

    def _words(self, count):
        found = []
        while len(found) < count:
            word = self.values.word()
            if word not in found:
                found.append(word)
        return found

    def _tool(self, words):
        description = " ".join(words)
        description = description[0].upper() + description[1:] + "."
        names = [self.values.gibberish(1)] if self.values.chance(0.8) else []
        properties = {name: {"type": "string"} for name in names}
        parameters = {"type": "object", "properties": properties, "required": names}
        return Tool(self.values.gibberish(2), description, parameters)

    def _request(self, words, value):
        """The words of a line, not always in their order, and the value among them."""
        said = list(words)
        if self.values.chance(0.3):
            self.random.shuffle(said)
        said.insert(self.random.choice([0, len(said), len(said)]), value)
        return " ".join(said)
