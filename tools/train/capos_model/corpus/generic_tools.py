"""Tools that no system has: invented verbs and nouns, names that say something or nothing, descriptions in many words.

They teach that a tool is what its description says. Some verbs, nouns, names and wordings are kept for evaluation.
"""

from dataclasses import dataclass

from .conversation import Tool, compact


@dataclass(frozen=True)
class Action:
    """The actions on a thing: words of descriptions, words of requests (the last ones held out), parameters."""

    group: str
    described: tuple
    asked: tuple
    roles: tuple
    gives: str

    def verbs(self, held_out):
        """Verbs of requests: those that training sees, or those that it does not."""
        keep = max(1, len(self.asked) // 3)
        return self.asked[-keep:] if held_out else self.asked[:-keep]


def _action(group, described, asked, roles, gives="done"):
    return Action(group, tuple(described.split("|")), tuple(asked.split("|")), tuple(roles.split()), gives)


ACTIONS = [
    _action("get", "Gets|Shows|Returns|Fetches", "show|get|fetch|display|look up|give me|bring me", "id", "object"),
    _action(
        "list", "Lists all|Returns all|Shows all|Enumerates the", "list all|show all|list the|enumerate all", "", "list"
    ),
    _action("create", "Creates|Makes|Adds", "create|make|add|set up|establish|produce", "id"),
    _action("delete", "Deletes|Removes|Erases|Discards", "delete|remove|erase|get rid of|discard|drop", "id"),
    _action("rename", "Renames|Changes the name of", "rename|change the name of|retitle", "id new"),
    _action("set", "Sets the level of|Adjusts|Changes the level of", "set|adjust|change|tune", "id amount"),
    _action("send", "Sends|Delivers|Forwards", "send|deliver|forward|pass|hand", "id person"),
    _action("start", "Starts|Switches on|Activates", "start|switch on|activate|turn on|fire up", "id"),
    _action("stop", "Stops|Switches off|Deactivates", "stop|switch off|deactivate|turn off|halt", "id"),
    _action("open", "Opens|Unlocks", "open|unlock|unseal", "id"),
    _action("close", "Closes|Locks|Shuts", "close|lock|shut|seal", "id"),
    _action(
        "count", "Counts|Tells the number of|Tells how many there are of the", "count|count all|tally", "", "number"
    ),
    _action("find", "Searches|Finds|Looks for", "search|find|look for|hunt for", "query", "list"),
    _action("assign", "Assigns|Gives to somebody|Entrusts", "assign|give|entrust", "id person"),
    _action("book", "Books|Reserves|Orders", "book|reserve|order|arrange", "id date"),
    _action("cancel", "Cancels|Calls off|Revokes", "cancel|call off|revoke|withdraw", "id"),
    _action("approve", "Approves|Accepts|Confirms", "approve|accept|confirm|sign off", "id"),
    _action("archive", "Archives|Puts away|Stores away", "archive|put away|stow away", "id"),
    _action("play", "Plays|Performs", "play|perform|put on", "id"),
    _action("measure", "Measures|Takes the size of", "measure|take the size of|gauge", "id", "object"),
    _action("comment", "Comments on|Adds a remark to", "comment on|add a remark to|annotate", "id text"),
    _action("paint", "Paints|Colours", "paint|colour|tint", "id"),
    _action("repair", "Repairs|Mends|Fixes", "repair|mend|fix", "id"),
    _action("clean", "Cleans|Washes", "clean|wash|scrub", "id"),
    _action("weigh", "Weighs|Tells the weight of", "weigh|tell me the weight of|put on the scales", "id", "object"),
    _action("feed", "Feeds|Gives food to", "feed|give food to|nourish", "id"),
]

# The last fifth of them is held out.
NOUNS = """
ticket user invoice lamp sensor playlist door event contact order backup branch container dataset recipe song photo
route alarm customer product task issue meeting room table vehicle shipment parcel payment account message channel
calendar document page comment form survey vote poll game player team match score course lesson student teacher book
author chapter movie ticket-office train flight hotel garden plant animal machine robot drone camera printer heater
fan valve pump motor cluster node volume snapshot certificate queue topic bucket record table-row column report
dashboard chart metric alert kitchen oven menu guest waiter coupon voucher subscription licence patient doctor
appointment prescription harbour vessel crane warehouse shelf pallet forklift truck driver tram bridge-toll lighthouse
orchard beehive vineyard
""".split()
_SPLIT = len(NOUNS) * 4 // 5

_PARAMETERS = {
    "id": (["id", "name", "key", "label", "title", "item", "target"], ["ref", "ident", "which", "handle"]),
    "new": (["newName", "new_name", "to", "newTitle"], ["becomes", "replacement"]),
    "amount": (["value", "amount", "level", "count", "percent"], ["qty", "magnitude"]),
    "person": (["to", "person", "recipient", "user", "owner", "assignee"], ["whom", "receiver"]),
    "query": (["query", "text", "search", "term"], ["needle", "phrase"]),
    "date": (["day", "date", "when", "weekday"], ["at", "moment"]),
    "text": (["text", "message", "body", "comment"], ["remark", "wording"]),
}
_TYPES = {"amount": "integer"}

_DESCRIPTIONS = [
    "{verb} {a} {noun}.",
    "{verb} the {noun}.",
    "{verb} one {noun} by its {first}.",
    "{verb} the given {noun}. The person is asked first.",
    "{verb} {a} {noun} of the {place}.",
    "{verb} {a} {noun}, named by its {first}.",
    "{verb} {a} {noun} in the {place}.",
    "{verb} the {noun} with this {first}",
    "{verb} {a} single {noun} of the {place}, and nothing else.",
    "{verb} exactly one {noun}; it must exist.",
    "{verb} whichever {noun} is named. Takes a moment.",
]
_HELD_OUT_DESCRIPTIONS = [
    "Use this to {asked} {a} {noun}.",
    "Lets you {asked} the {noun} with this {first}.",
    "A tool to {asked} {a} {noun} that exists.",
    "Call it in order to {asked} one {noun} of the {place}.",
]
_LISTS = [
    "{verb} {noun}s.",
    "{verb} {noun}s of the {place}.",
    "{verb} {noun}s that there are. Fast.",
    "{verb} {noun}s in the {place}, in no order.",
]
_HELD_OUT_LISTS = ["Use this to {asked} {noun}s.", "Answers requests to {asked} {noun}s."]

# A person's words, by the requested values: sentences of the training set, and held-out ones.
_REQUESTS = {
    "id": (
        [
            "{verb} [the] {noun} {id}",
            "{verb} [the|our|my] {noun} (called|named) {id}",
            "[the] {noun} {id}: {verb} it",
            "I (want|need) to {verb} [the] {noun} {id}",
            "{verb} {id}, (the|a|our) {noun}",
            "(could|can|will) you {verb} [the|our] {noun} {id}?",
            "we (should|must) {verb} [the] {noun} {id}",
            "go ahead and {verb} [the] {noun} {id}",
            "there is a {noun} {id}, {verb} it",
        ],
        [
            "{verb} the {noun} that goes by the name {id}",
            "let us {verb} {noun} {id}",
            "do me a favour and {verb} the {noun} {id}",
            "about the {noun} {id}: I want you to {verb} it",
        ],
    ),
    "": (
        [
            "{verb} {noun}s",
            "{verb} {noun}s (there are|we have|in here)",
            "I (want|need) to {verb} {noun}s",
            "(could|can) you {verb} {noun}s?",
        ],
        ["{verb} {noun}s that you know of", "let us {verb} {noun}s", "do me a favour and {verb} {noun}s"],
    ),
    "id new": (
        [
            "{verb} [the] {noun} {id} to {new}",
            "{verb} {noun} {id} and call it {new}",
            "{verb} the {noun} (called|named) {id} to {new}",
            "[the] {noun} {id}: {verb} it to {new}",
        ],
        ["{verb} {noun} {id} so that it is {new}", "let us {verb} the {noun} {id} into {new}"],
    ),
    "id amount": (
        [
            "{verb} [the] {noun} {id} to {amount}",
            "{verb} the {noun} (called|named) {id} to {amount}",
            "I want to {verb} [the] {noun} {id} to {amount}",
        ],
        ["{verb} {noun} {id} so that it is at {amount}", "{amount} for the {noun} {id}: {verb} it"],
    ),
    "id person": (
        [
            "{verb} [the] {noun} {id} to {person}",
            "{verb} to {person} the {noun} {id}",
            "I want to {verb} [the] {noun} {id} to {person}",
        ],
        ["{person} should have {noun} {id}: {verb} it", "let us {verb} {noun} {id} to our {person}"],
    ),
    "query": (
        [
            "{verb} {noun}s (about|with|for) {query}",
            "{verb} [a|the] {noun} that matches {query}",
            "{verb} {query} (among|in) the {noun}s",
        ],
        ["{verb} {noun}s to do with {query}", "let us {verb} {noun}s where {query} occurs"],
    ),
    "id date": (
        [
            "{verb} [the] {noun} {id} (for|on) {date}",
            "{verb} {noun} {id} {date}",
            "{verb} {id}, the {noun}, for {date}",
        ],
        ["on {date}, {verb} {noun} {id}", "for {date} let us {verb} the {noun} {id}"],
    ),
    "id text": (
        [
            '{verb} [the] {noun} {id}: "{text}"',
            '{verb} {noun} {id} (with|saying) "{text}"',
            'I want to {verb} [the] {noun} {id} with "{text}"',
        ],
        ['"{text}": {verb} {noun} {id} so', 'let us {verb} {noun} {id} in the words "{text}"'],
    ),
}
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "today", "tomorrow"]
_STATES = ["open", "closed", "ready", "busy", "new", "done", "lost", "active"]
_PLACES = ["workspace", "office", "house", "project", "shop", "system", "store", "network"]


@dataclass(frozen=True)
class Made:
    """A tool with what it was made of."""

    tool: Tool
    action: Action
    noun: str
    parameters: tuple

    def conflicts(self, other):
        """Whether a request for one could be meant for the other."""
        return self.noun == other.noun and self.action.group == other.action.group or self.tool.name == other.tool.name


class Workshop:
    """Makes tools and requests for them; with `held_out` of words that training never sees."""

    def __init__(self, values, held_out_names=False, held_out_wording=False):
        self.values = values
        self.held_out = held_out_names
        self.wording = held_out_wording

    def noun(self):
        if self.values.chance(0.2):
            return self.values.gibberish(2)
        return self.values.choose(NOUNS[_SPLIT:] if self.held_out else NOUNS[:_SPLIT]).replace("-", " ")

    def _name(self, action, noun):
        """A name that says what the tool does, or half of it, or nothing."""
        if self.values.chance(0.4 if self.held_out else 0.3):
            word = self.values.gibberish()
            return f"{word}_{self.values.gibberish(1)}" if self.values.chance(0.5) else word
        verb, noun = action.group, noun.replace(" ", "_")
        if self.held_out:
            return self.values.choose([f"{noun}.{verb}", f"{verb}-{noun}", f"do_{verb}_{noun}", f"{noun}2{verb}"])
        camel = verb + noun.title().replace("_", "")
        return self.values.choose([f"{verb}_{noun}", f"{noun}_{verb}", camel, f"app_{verb}_{noun}", f"{noun}s_{verb}"])

    def make(self, noun=None, action=None):
        """A tool."""
        action, noun = action or self.values.choose(ACTIONS), noun or self.noun()
        names, properties = [], {}
        for role in action.roles:
            known, unknown = _PARAMETERS[role]
            among = [name for name in (unknown if self.held_out else known) if name not in properties]
            names.append(self.values.choose(among))
            properties[names[-1]] = {"type": _TYPES.get(role, "string")}
        held = self.held_out and self.values.chance(0.5)
        if action.roles and action.roles[0] == "id":
            patterns = _HELD_OUT_DESCRIPTIONS if held else _DESCRIPTIONS
        else:
            patterns = _HELD_OUT_LISTS if held else _LISTS
        description = self.values.choose(patterns).format(
            verb=self.values.choose(action.described),
            asked=self.values.choose(action.verbs(False)),
            noun=noun,
            a="an" if noun[0] in "aeiou" else "a",
            first=names[0] if names else "",
            place=self.values.choose(_PLACES),
        )
        parameters = {"type": "object", "properties": properties, "additionalProperties": False}
        if names:
            parameters["required"] = names
        return Made(Tool(self._name(action, noun), description, parameters), action, noun, tuple(names))

    def others(self, wanted, count):
        """Tools besides these, some of the same thing or with the same verb; none that could be meant instead."""
        found = list(wanted)
        while len(found) < len(wanted) + count:
            near = self.values.choose(wanted) if wanted and self.values.chance(0.5) else None
            if near and self.values.chance(0.5):
                made = self.make(noun=near.noun)
            else:
                made = self.make(action=near.action if near else None)
            if not any(made.conflicts(other) for other in found):
                found.append(made)
        return found[len(wanted) :]

    def value(self, role):
        sources = {
            "amount": self.values.number,
            "person": lambda: self.values.slot("word"),
            "date": lambda: self.values.choose(_DAYS),
            "text": lambda: self.values.sentence(2, 5),
            "query": self.values.word,
        }
        return sources.get(role, self.values.name)()

    def request(self, made):
        """A sentence that asks for the tool with open places, their values, and the arguments of its call."""
        patterns = _REQUESTS[" ".join(made.action.roles)][self.wording]
        values = {role: self.value(role) for role in made.action.roles}
        pattern = self.values.choose(patterns)
        verb = self.values.choose(made.action.verbs(self.wording and self.values.chance(0.5)))
        pattern = pattern.replace("{verb}", verb).replace("{noun}", made.noun)
        return pattern, values, dict(zip(made.parameters, (values[role] for role in made.action.roles)))

    def result(self, made):
        """The tool's result."""
        gives = made.action.gives
        if gives == "list":
            names = [self.values.name() for _ in range(self.values.choose([0, 1, 2, 3, 4, 6]))]
            return compact({self.values.choose(["items", "names", "results", made.noun.split()[-1] + "s"]): names})
        if gives == "number":
            return compact({"count": self.values.number()})
        if gives == "object":
            return compact(
                {"name": self.values.name(), "state": self.values.choose(_STATES), "size": self.values.number()}
            )
        return self.values.choose(
            ["done", "done", "done", f"{made.noun} {self.values.name()} {self.values.choose(_STATES)}"]
        )
