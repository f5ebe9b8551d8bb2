"""The stage on which scenes are played: calls with their results, and the answer at the end."""

from . import answers
from .conversation import Call, invoke, result, say


class Over(Exception):
    """A call failed, and nothing follows but the answer to that."""


class Stage:
    """The messages of a conversation while it is played."""

    def __init__(self, machine, failures=0.0):
        self.machine = machine
        self.failures = failures
        self.messages = []

    def call(self, tool, /, **arguments):
        """One call and its result."""
        return self.calls([(tool, arguments)])[0]

    def calls(self, wanted, **given):
        """Calls side by side, and their results."""
        self.messages.append(invoke(*(Call(name, arguments) for name, arguments in wanted)))
        found = []
        for name, arguments in wanted:
            error = self.machine.error(name, arguments) if self.machine.values.chance(self.failures) else None
            found.append(error or self.machine.result(name, {**arguments, **given}))
        self.messages += [result(text) for text in found]
        if any(answers.failed(text) for text in found):
            self.answer(found)
            raise Over
        return found

    def shown(self, tool, arguments, **given):
        """One call whose result has in it what is given here."""
        return self.calls([(tool, arguments)], **given)[0]

    def answer(self, results):
        self.messages.append(say(answers.join(results)))

    def play(self, scene, values):
        """Plays a scene, which is its tools and its play, to its end, the answer included."""
        self.finish(lambda: scene[1](self, values))

    def finish(self, play):
        """Plays calls to their end, and answers with the last result."""
        try:
            self.answer([play()])
        except Over:
            pass


def under(folder, name):
    """A path of a file or folder in a folder."""
    return name if folder == "." else f"{folder}/{name}"


def beside(path, name):
    """A path in the folder of another."""
    folder, found, _ = path.rpartition("/")
    return folder + found + name


def said(template, values):
    """A value, or a text with some in it; a list of texts is one of values."""
    if isinstance(template, list):
        return [str(said(part, values)) for part in template]
    return values[template[1:-1]] if template[1:-1] in values else template.format(**values)


def steps(*steps):
    """Calls after one another, each a tool and its arguments: templates for the values, or `True`."""

    def play(stage, values):
        for name, arguments in steps:
            given = {key: part if part is True else said(part, values) for key, part in arguments.items()}
            found = stage.call(name, **given)
        return found

    return [name for name, _ in steps], play
