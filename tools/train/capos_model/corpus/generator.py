"""Conversations from a seed: which classes there are, with which tools, in which words."""

import random
from dataclasses import dataclass

from . import answers, own_tools, phrasing, scenes, second_turns
from .conversation import Call, Conversation, forbidden, invoke, none, result, say, user
from .generic_tools import NOUNS, Workshop
from .phrasing import HELD_OUT, ROWS, TRAIN, Pattern
from .stage import Stage
from .values import Values
from .words import meant

CHAINS = phrasing.read("chains")
FOLLOWUPS = phrasing.read("followups")
AGAIN = phrasing.read("again")
OPEN = phrasing.read("open_requests")
CHAT = phrasing.read("chat")

# Classes and how many of a hundred conversations are of each.
CLASSES = {
    "call": 25,
    "chain": 12,
    "parallel": 5,
    "followup": 8,
    "change": 8,
    "absent": 13,
    "forbidden": 10,
    "denied": 6,
    "error": 6,
    "chat": 7,
}

# How many of a hundred chains of own tools are two requests in one sentence that have nothing to do with each other.
PAIRS = 40
# How many of a hundred requests without a tool are for what no tool could do.
OPEN_SHARE = 30

# What stands between two requests in one sentence.
JOINTS = {
    TRAIN: [" and then ", ", then ", "; after that "],
    ROWS: [" and ", ", and ", " and also ", " then ", ". then ", ". ", "; ", " & ", ", also ", " and after that "]
    + [" plus "]
    + [" as well as ", ". also ", ". Also ", ", finally ", " - ", " -- ", ", ", ", once done ", ", when that's finished "]
    + [", when that is done, ", ", as soon as it's done ", " and finally ", ". finally, ", ", next ", ". next ", ". and "]
    + [", plus ", " and on top of that ", ", besides ", ", and please ", ", and then please ", ". After that, ", "... "]
    + [". one more thing: ", ", and another thing: ", ", and while you are at it ", ", and at the same time ", " + "],
    HELD_OUT: [", and once that is done, ", " and afterwards "],
}

# How patterns end whose last value is a text of several words: what follows it could be taken for a part of it.
_TEXT_ENDS = ("{text}", '{text}"', "{errand}", '{errand}"', "{about}")

# How many of a hundred of those conversations that can be about either are about tools that no system has.
GENERIC = 45


@dataclass(frozen=True)
class Split:
    """Which words conversations are made of."""

    name: str
    wording: str = TRAIN
    names: bool = False

    @property
    def held_out_values(self):
        return self.wording == HELD_OUT or self.names


SPLITS = {
    split.name: split
    for split in [
        Split("train"),
        Split("wording", HELD_OUT),
        Split("names", TRAIN, True),
        Split("both", HELD_OUT, True),
    ]
}


class Generator:
    """Conversations of one split; the same seed gives the same ones."""

    open_share = OPEN_SHARE
    # Whether it is for rows of training.
    rows = False

    def __init__(self, split, seed, values=Values, machine=own_tools.Machine):
        self.split = SPLITS[split]
        self.random = random.Random(f"{split} {seed}")
        self.values = values(self.random, self.split.held_out_values)
        self.machine = machine(self.values)
        self.workshop = Workshop(self.values, self.split.names, self.split.wording == HELD_OUT)

    def conversations(self, count):
        return [self.conversation() for _ in range(count)]

    def conversation(self, kind=None):
        """A conversation; of any class if none is given."""
        kind = kind or self.random.choices(list(CLASSES), list(CLASSES.values()))[0]
        return getattr(self, f"_{kind}")()

    # A person's words.

    def _sentence(self, pattern, before=None):
        """The sentence of a pattern, the values in it, and the arguments of its call."""
        values = self.values.slots(pattern.slots(), before)
        text, arguments = pattern.fill(self._worded(pattern), values)
        text = self._said(text, values)
        return text, {slot: meant(value) for slot, value in values.items()}, arguments

    def _said(self, text, values):
        """A sentence as people say what is in it."""
        return text

    def _worded(self, pattern):
        """A sentence of a pattern, its values still open."""
        section = self.split.wording
        sentence = pattern.choose(self.random, section)
        if section == TRAIN:
            sentence = phrasing.careless(sentence, self.random)
            while phrasing.held_out(sentence):
                sentence = pattern.choose(self.random, TRAIN)
        return phrasing.dressed(sentence, self.random, section, self.rows)

    def _pattern(self, sections):
        return self._one_of(self._patterns(sections))

    def _patterns(self, sections):
        """The patterns of a file that there are to choose from."""
        return sections[self.split.wording]

    def _one_of(self, patterns):
        if self.split.wording == HELD_OUT:
            return self.values.choose(patterns)
        return self.random.choices(patterns, [pattern.weight for pattern in patterns])[0]

    def _own_request(self, name):
        """A request for one of the own tools, and the call that it takes."""
        text, _, arguments = self._sentence(self._pattern(own_tools.PHRASINGS[name]))
        return text, Call(name, arguments)

    def _generic_request(self, made):
        text, values, arguments = self.workshop.request(made)
        pattern = Pattern(text, ())
        return pattern.fill(self._worded(pattern), values)[0], Call(made.tool.name, arguments)

    # Which tools there are.

    def _own_set(self, needed=(), without=()):
        """Own tools with the needed ones: a profile's, or some of them, or some together with tools of others."""
        needed, chance = list(dict.fromkeys(needed)), self.random.random()
        if chance < 0.35:
            profiles = [
                tools
                for tools in own_tools.PROFILES.values()
                if set(needed) <= {tool.name for tool in tools} and len(tools) > 1
            ]
            tools = list(self.values.choose(profiles)) if profiles else list(own_tools.PROFILES["operator"])
            tools = [tool for tool in tools if tool.name not in without]
            if self.values.chance(0.5):
                self.random.shuffle(tools)
            return tools
        others = [name for name in own_tools.TOOLS if name not in needed and name not in without]
        count = max(0, self.random.randint(2, 8) - len(needed))
        names = needed + self.random.sample(others, min(count, len(others)))
        tools = [own_tools.TOOLS[name] for name in names]
        if chance > 0.8:
            tools += [made.tool for made in self.workshop.others([], self.random.randint(1, 3))]
        self.random.shuffle(tools)
        return tools

    def _generic_set(self, made):
        tools = [found.tool for found in [*made, *self.workshop.others(list(made), self.random.randint(1, 6))]]
        if self.values.chance(0.25):
            tools += [own_tools.TOOLS[name] for name in self.random.sample(sorted(own_tools.TOOLS), 2)]
        self.random.shuffle(tools)
        return tools

    def _some_forbidden(self, tools, but=()):
        """Some sessions forbid tools that the conversation is not about."""
        if not self.values.chance(0.3):
            return tools
        share = self.random.uniform(0.1, 0.6)
        return [forbid(tool) if tool.name not in but and self.values.chance(share) else tool for tool in tools]

    # The subjects of a conversation: each of these may be asked for.

    def _none_at_times(self, tools):
        """Some sessions have no tools."""
        return [] if self.values.chance(0.05) else tools

    def _generic(self):
        return self.split.names or self.random.randrange(100) < GENERIC

    def _asked_name(self):
        """The own tool that is asked for."""
        return self.values.choose(sorted(own_tools.TOOLS))

    def _other_name(self, name):
        """Another one."""
        while (other := self._asked_name()) == name:
            pass
        return other

    def _asked_made(self, roles=None, beside=None):
        """The made tool that is asked for: of these roles, and after this one."""
        if beside:
            return self.workshop.others([beside], 1)[0]
        made = self.workshop.make()
        while roles and made.action.roles != roles:
            made = self.workshop.make()
        return made

    def _possible(self, needed):
        """Whether a conversation may be about these own tools."""
        return True

    def _missing_name(self):
        """An own tool that is asked for and not there."""
        return self.values.choose(sorted(own_tools.TOOLS))

    def _missing_made(self):
        """A made tool that is asked for and not there, and tools that are."""
        made = self.workshop.make()
        near = self.workshop.others([made], self.random.randint(2, 7))
        return made, [other.tool for other in near]

    def _one_call(self):
        """Tools, a request and its call, the tool's own result, and whether it is an own tool."""
        if self._generic():
            made = self._asked_made()
            text, call = self._generic_request(made)
            tools = self._generic_set([made])
            return self._some_forbidden(tools, [call.name]), text, call, self.workshop.result(made), False
        text, call = self._own_request(self._asked_name())
        tools = self._some_forbidden(self._own_set([call.name]), [call.name])
        return tools, text, call, self.machine.result(call.name, call.arguments), True

    # The classes.

    def _call(self):
        tools, text, call, found, own = self._one_call()
        messages = [user(text), invoke(call), result(found), say(answers.to_result(found))]
        return Conversation("call", tools, messages, own)

    def _chain(self):
        if self._generic():
            return self._generic_chain()
        if self.random.randrange(100) < PAIRS:
            return self._own_pair()
        return self._scene("chain", lambda scene: scene not in scenes.PARALLEL)

    def _parallel(self):
        if self._generic():
            return self._generic_parallel()
        return self._scene("parallel", lambda scene: scene in scenes.PARALLEL)

    def _scene(self, kind, wanted):
        found = [pattern for pattern in self._patterns(CHAINS) if wanted(dict(pattern.arguments)["scene"])]
        pattern = self._fitting(found, lambda meant: scenes.SCENES[meant["scene"]][0])
        text, values, arguments = self._sentence(pattern)
        scene = arguments["scene"]
        needed = scenes.SCENES[scene][0]
        stage = Stage(self.machine, failures=0.06)
        stage.play(scenes.SCENES[scene], values)
        tools = self._some_forbidden(self._own_set(needed), needed)
        return Conversation(kind, tools, [user(text), *stage.messages], True)

    def _fitting(self, patterns, needed):
        """One of the patterns whose tools there can be."""
        return self._one_of([found for found in patterns if self._possible(needed(dict(found.arguments)))])

    def _generic_chain(self):
        """Two things after one another; the second is reported once the first is done."""
        first = self._asked_made()
        second = self._asked_made(beside=first)
        (one, first_call), (two, second_call) = self._generic_request(first), self._generic_request(second)
        messages = [user(self._paired(one, two))]
        one_found, two_found = self.workshop.result(first), self.workshop.result(second)
        messages += [invoke(first_call), result(one_found), invoke(second_call), result(two_found)]
        messages.append(say(answers.to_result(two_found)))
        return Conversation("chain", self._generic_set([first, second]), messages)

    def _joint(self):
        return self.values.choose(JOINTS[self.split.wording])

    def _paired(self, one, two):
        """Two requests as one sentence."""
        return _bare(one) + self._joint() + _lower(two)

    def _own_pair(self):
        """Two requests for own tools in one sentence; the second is reported once the first is done."""
        first = self._asked_name()
        second = self._other_name(first)
        # A value at the joint has clear ends: no text before it, none behind it whose first letter would change.
        (one, first_call), (two, second_call) = self._joined(first, False), self._joined(second, True)
        stage = Stage(self.machine, failures=0.06)
        stage.finish(lambda: [stage.call(call.name, **call.arguments) for call in (first_call, second_call)][-1])
        needed = [first, second]
        tools = self._some_forbidden(self._own_set(needed), needed)
        return Conversation("chain", tools, [user(self._paired(one, two)), *stage.messages], True)

    def _joined(self, name, last):
        """A request for an own tool that stands before another, or behind one, in a sentence."""
        while True:
            pattern = self._pattern(own_tools.PHRASINGS[name])
            if not (pattern.text.startswith(("{", '"')) if last else pattern.text.endswith(_TEXT_ENDS)):
                text, _, arguments = self._sentence(pattern)
                return text, Call(name, arguments)

    def _generic_parallel(self):
        """One thing for two names."""
        made = self._asked_made(roles=("id",))
        names = self.random.sample([self.values.name() for _ in range(6)], 2)
        verb = self.values.choose(made.action.verbs(self.split.wording == HELD_OUT))
        patterns = {
            TRAIN: [f"{verb} [the] {made.noun}s {{one}} and {{other}}", f"{verb} {made.noun} {{one}} and {{other}}"],
            HELD_OUT: [f"{verb} both {made.noun} {{one}} and {made.noun} {{other}}"],
        }
        pattern = Pattern(self.values.choose(patterns[self.split.wording]), ())
        text, _ = pattern.fill(self._worded(pattern), dict(zip(("one", "other"), names)))
        calls = [Call(made.tool.name, {made.parameters[0]: name}) for name in names]
        found = [self.workshop.result(made) for _ in names]
        messages = [user(text), invoke(*calls), *map(result, found), say(answers.join(found))]
        return Conversation("parallel", self._generic_set([made]), messages)

    def _followup(self):
        """A second turn about what the first was about."""
        if self._generic():
            return self._generic_followup()
        pattern = self._second_pattern()
        meant = dict(pattern.arguments)
        first, scene = meant["after"], meant["scene"]
        text, call = self._own_request(first)
        while scene in second_turns.NEEDS and not call.arguments.get(second_turns.NEEDS[scene]):
            text, call = self._own_request(first)
        while scene in second_turns.INTO and call.arguments.get("path") == ".":
            text, call = self._own_request(first)
        while scene in second_turns.TAKEN and "/" not in call.arguments["to"]:
            text, call = self._own_request(first)
        found = self._followed(first, call)
        while scene in second_turns.PICKED and not second_turns.picked(found, second_turns.PICKED[scene]):
            text, call = self._own_request(first)
            found = self._followed(first, call)
        if scene in second_turns.FAILED:
            found = self.machine.list_services(failed=self.values.choose(self.machine.services()))
        asked, (text, values, _) = text, self._sentence(pattern, call.arguments.get("path"))
        if scene in second_turns.NAMED and self._is_listed():
            found = second_turns.named(found, values["file"], self.random.randrange(4))
        if scene in second_turns.LISTED:
            found = second_turns.named(found, values["folder"], self.random.randrange(4), "directory")
        if scene in second_turns.NAMED_SERVICE:
            found = second_turns.with_service(found, values["service"], self.random.randrange(4))
        messages = [user(asked), invoke(call), result(found), say(answers.to_result(found))]
        stage = Stage(self.machine, failures=0.04)
        there = call.arguments.get("path", ".")
        stage.play(second_turns.SCENES[scene], {**values, "before": call.arguments, "there": there, "result": found})
        needed = followed_tools(meant)
        tools = self._some_forbidden(self._own_set(needed), needed)
        return Conversation("followup", tools, messages + [user(text), *stage.messages], True)

    def _second_pattern(self):
        """What is said after an answer."""
        return self._fitting(self._patterns(FOLLOWUPS), followed_tools)

    def _is_listed(self):
        """Whether the model sees what a list brought about a file that is asked for."""
        return True

    def _generic_followup(self):
        """The same for another name."""
        made = self._asked_made(roles=("id",))
        text, call = self._generic_request(made)
        patterns = {
            TRAIN: ["(and|what about|now|also) {name}", "(and|now) the {noun} {name}", "{name} (too|as well)"],
            HELD_OUT: ["the same (for|with) {name}", "then {name}, likewise"],
        }
        pattern = self.values.choose(patterns[self.split.wording]).replace("{noun}", made.noun)
        again, _, values = self._sentence(Pattern(pattern, ()))
        messages = [user(text)]
        for asked in (call, Call(made.tool.name, {made.parameters[0]: values["name"]})):
            found = self.workshop.result(made)
            messages += [invoke(asked), result(found), say(answers.to_result(found)), user(again)]
        return Conversation("followup", self._generic_set([made]), messages[:-1])

    def _followed(self, name, call):
        """A result that has something in it to ask on about."""
        if name == "list_directory":
            return self.machine.list_directory(**call.arguments, first=self.values.file_name())
        if name == "list_programs":
            return self.machine.list_programs(first=self.values.program())
        if name in ("find_files", "search_files"):
            return getattr(self.machine, name)(**call.arguments, some=True)
        return self.machine.result(name, call.arguments)

    def _change(self):
        """A second turn that has nothing to do with the first, however that one went."""
        own = not self._generic()
        if own:
            names = [self._asked_name(), self._asked_name()]
            asked = [self._own_request(name) for name in names]
            found = [self.machine.result(call.name, call.arguments) for _, call in asked]
            tools = self._own_set(names)
        else:
            made = self._asked_made()
            made = [made, self._asked_made(beside=made)]
            asked = [self._generic_request(one) for one in made]
            found = [self.workshop.result(one) for one in made]
            tools = self._generic_set(made)
        if self.values.chance(0.5):
            call = asked[0][1]
            found[0] = self._refusal(call) if self.values.chance(0.5) else self._failure(call, own)
        turns = [
            [user(text), invoke(call), result(got), say(answers.to_result(got))]
            for (text, call), got in zip(asked, found)
        ]
        # One of them may be about nothing that a tool could do.
        if self.values.chance(0.3):
            turns[self.random.randrange(2)] = self._idle_turn(tools)
        return Conversation("change", tools, [*turns[0], *turns[1]], own)

    def _idle_turn(self, tools):
        """A turn without calls: small talk, or a request for which no tool is there."""
        if self.values.chance(0.5):
            text, _, arguments = self._sentence(self._pattern(CHAT))
            return [user(text), say(answers.CHAT.get(arguments["answer"]) or answers.abilities(tools))]
        while True:
            text, _, _ = self._sentence(self._open())
            if not any(set(tool.description.lower().rstrip(".").split()) & things(text) for tool in tools):
                return [user(text), none(answers.NO_TOOL)]

    def _open(self):
        """A request that no tool could do."""
        return self._pattern(OPEN)

    def _absent(self):
        """The tool that it takes is not there, or no tool can do it."""
        if self.random.randrange(100) < self.open_share:
            text, _, _ = self._sentence(self._open())
            own = not self._generic()
            tools = self._own_set() if own else self._generic_set([])
            tools = [tool for tool in tools if not set(tool.description.lower().rstrip(".").split()) & things(text)]
        elif self._generic():
            own = False
            made, tools = self._missing_made()
            text, _ = self._generic_request(made)
        else:
            own = True
            name = self._missing_name()
            text, _ = self._own_request(name)
            tools = self._own_set(without=own_tools.near(name))
        return Conversation("absent", self._some_forbidden(tools), [user(text), none(answers.NO_TOOL)], own)

    def _forbidden(self):
        tools, text, call, _, own = self._one_call()
        tools = [forbid(tool) if tool.name == call.name else tool for tool in tools]
        tool = next(tool for tool in tools if tool.name == call.name)
        return Conversation("forbidden", tools, [user(text), forbidden(call.name, answers.forbidden(tool))], own)

    def _refusal(self, call):
        """The answer when the person, or the system, does not permit a call."""
        profile = self.values.choose(["guest", "operator"])
        return self.values.choose(
            [
                "deniedByUser: the person said no",
                "deniedByUser: nobody answered within 300 s",
                "stepUpFailed: no passphrase was entered",
                "stepUpFailed: the passphrase is wrong",
                f'refusedByPolicy: "{call.name}" is not permitted to {profile} sessions',
                "refusedByPolicy: the audit log takes no records",
            ]
        )

    def _denied(self):
        """The person, or the system, does not let it happen; sometimes the person then wants it after all."""
        tools, text, call, found, own = self._one_call()
        refusal = self._refusal(call)
        messages = [user(text), invoke(call), result(refusal), say(answers.to_result(refusal))]
        if refusal.startswith("deniedByUser") and self.values.chance(0.5):
            again, _, _ = self._sentence(self._pattern(AGAIN))
            messages += [user(again), invoke(call), result(found), say(answers.to_result(found))]
        return Conversation("denied", tools, messages, own)

    def _failure(self, call, own):
        """The answer when a call fails."""
        failure = self.machine.error(call.name, call.arguments) if own else None
        if failure and not self.values.chance(0.3):
            return failure
        return self.values.choose(
            [
                f"timedOut: it did not end within {self.values.choose([4000, 10000, 30000])} ms",
                "cancelled: cancelled by the person",
                f"executionError: failed: {self.values.sentence(2, 6)}",
                f"executionError: overloaded: {self.values.number()} calls wait already",
                f"executionError: disconnected: service `{self.values.service()}` is restarted",
                f"executionError: invalid argument: there is no {self.values.word()} `{self.values.name()}`",
                f"executionError: not found: there is no {self.values.word()} {self.values.file()}",
            ]
        )

    def _error(self):
        tools, text, call, _, own = self._one_call()
        failure = self._failure(call, own)
        messages = [user(text), invoke(call), result(failure), say(answers.to_result(failure))]
        return Conversation("error", tools, messages, own)

    def _chat_pattern(self):
        """Small talk, or a request that must not be done."""
        return self._pattern(CHAT)

    def _chat(self):
        text, _, arguments = self._sentence(self._chat_pattern())
        own = not self._generic()
        tools = self._own_set() if own else self._generic_set([])
        tools = self._some_forbidden(self._none_at_times(tools))
        found = answers.CHAT.get(arguments["answer"]) or answers.abilities(tools)
        return Conversation("chat", tools, [user(text), say(found)], own)


def followed_tools(meant):
    """The tools of a first turn and of what is said after it."""
    return [meant["after"], *second_turns.SCENES[meant["scene"]][0]]


def things(text):
    """The things that generic tools are about and that a sentence names."""
    return {noun for noun in NOUNS if noun in text.lower()}


def forbid(tool):
    return type(tool)(tool.name, tool.description, tool.parameters, "forbidden")


def _bare(text):
    return text.rstrip(".?")


def _lower(text):
    return text[:1].lower() + text[1:]
