"""capOS's own tools: as the system describes them, and results as its shell hands them to a model."""

import json
from pathlib import Path

from . import phrasing
from .conversation import Tool, compact
from .values import EXTENSIONS, MANIFEST, PEOPLE, PROGRAMS, SERVICES

PROFILES = {
    profile: [Tool(tool["name"], tool["description"], tool["parameters"], tool["permission"]) for tool in tools]
    for profile, tools in json.loads(
        (Path(__file__).parents[2] / "data" / "tools.json").read_text(encoding="utf-8")
    ).items()
}
TOOLS = {tool.name: tool for tools in PROFILES.values() for tool in tools}
# The operator's sessions hold every tool, in the modes that most people meet.
TOOLS |= {tool.name: tool for tool in PROFILES["operator"]}
PHRASINGS = {name: phrasing.read(name) for name in TOOLS}

# If one of these tools is missing, another of its line may still answer, so no example asks for the missing one.
NEAR = [
    {"service_status", "list_services", "system_status"},
    {"file_info", "list_directory", "find_files"},
    {"find_files", "search_files"},
    {"read_file", "search_files"},
    {"list_programs", "run_program"},
    {"read_log", "service_status", "list_services"},
]

# The manifest's facts about the services: those that keep records about sessions are trusted.
_DESCRIPTIONS = {service["name"]: service["description"] for service in MANIFEST["service"]}
_TRUSTED = [service["name"] for service in MANIFEST["service"] if service.get("trusted")]
# Parameters whose names are words of Python.
_PARAMETERS = {"from": "source"}
_ENDS = ["it panicked; the log says where", "it ended with code 3", "killed by `init`: restarted on request"]


def near(name):
    """The tools that may answer in place of this one, itself among them."""
    return {name}.union(*(line for line in NEAR if name in line))


class Machine:
    """Results of the own tools on an invented machine."""

    def __init__(self, values):
        self.values = values
        self.random = values.random

    def services(self):
        """Names of services that a session may restart."""
        return [service for service in SERVICES if service not in _TRUSTED]

    def result(self, name, arguments):
        """The tool's result for these arguments: an error, if the system always gives it."""
        service = arguments.get("name")
        if name in ("restart_service", "stop_service") and service in _TRUSTED:
            return (
                f"executionError: failed: service `{service}` is trusted, so no session may restart or stop it: "
                "it would forget what it has recorded or counted. After a fault it is restarted without asking; to "
                "restart it otherwise, turn the machine off and on"
            )
        given = {_PARAMETERS.get(key, key): value for key, value in arguments.items()}
        return getattr(self, name)(**given)

    def error(self, name, arguments):
        """The error of the tool with these arguments, in the services' words; nothing if none of them would fail."""
        path = arguments.get("path", "")
        last = path.rsplit("/", 1)[-1]
        reasons = {
            "read_file": [f"`{last}` does not exist", f"`{last}` is a folder, not a file"],
            "file_info": [f"`{last}` does not exist"],
            "list_directory": [f"`{last}` does not exist", f"`{last}` is a file, not a folder"],
            "delete_file": [f"`{last}` does not exist", f"the folder `{last}` is not empty"],
            "write_file": [f"`{last}` is a folder, not a file", "no space: this takes 4096 bytes, and 12 are left"],
            "make_directory": [f"`{last}` exists already"],
            "find_files": [f"`{last}` does not exist"],
            "search_files": [f"`{last}` does not exist"],
        }
        if "from" in arguments:
            first, second = (arguments[end].rsplit("/", 1)[-1] for end in ("from", "to"))
            reasons[name] = [f"`{first}` does not exist", f"`{second}` exists already"]
        program, service = arguments.get("program"), arguments.get("name")
        if program and program not in PROGRAMS:
            reasons["run_program"] = [f"there is no program `{program}`; there are {', '.join(PROGRAMS)}"]
        if service and service not in SERVICES:
            reasons[name] = [f"there is no service `{service}`; there are {', '.join(SERVICES)}"]
        if name == "remind":
            return self._reminder_error(arguments)
        if name not in reasons or path == ".":
            return None
        return f"executionError: invalid argument: {self.values.choose(reasons[name])}"

    def _reminder_error(self, arguments):
        """Why a reminder is not set: the call names no fit time, or too many reminders wait."""
        given = "afterSeconds" if "afterSeconds" in arguments else "time"
        reasons = [
            "executionError: 16 reminders of this session wait, which is the limit; /remind cancel N drops one",
            f"invalidArguments: $.{given}: this session ends in {self._left()}, and its reminders end with it",
        ]
        if given == "time":
            unset = "the machine's clock is not set; give afterSeconds, or have the person set it"
            reasons.append(f"invalidArguments: $.time: {unset}")
        return self.values.choose(reasons)

    def system_status(self):
        memory = self.values.choose([268, 534, 1071, 2145, 4293]) * 1_000_000 + self.random.randint(0, 999_999)
        return compact(
            {
                # As many of few digits as of many.
                "uptimeSeconds": int(3 * 30_000 ** self.random.random()),
                "memoryBytes": memory,
                "freeBytes": memory - self.random.randint(9_000_000, 60_000_000),
                "processors": self.values.choose([1, 2, 4, 8]),
                "processes": self.random.randint(9, 20),
                "services": self.random.randint(11, 14),
            }
        )

    def _service(self, name, state="running"):
        restarts = self.values.choose([0, 0, 0, 1, 2, 3])
        failed = state in ("failed", "restarting")
        return {
            "name": name,
            "state": state,
            "restarts": restarts,
            "maxRestarts": 5,
            "lastExit": self.values.choose(_ENDS) if restarts or failed else "",
            "frames": 0 if state in ("failed", "stopped") else self.random.randint(60, 900),
            "description": _DESCRIPTIONS.get(name, self.values.sentence(2, 4)),
        }

    def list_services(self, failed=None):
        """All services; `failed` is one that has failed, among the first."""
        names = SERVICES[:]
        if failed or self.values.chance(0.5):
            names = self.random.sample(names, self.random.randint(2, len(names)))
        services = [self._service(name) for name in names if name != failed]
        if failed:
            services.insert(self.random.randint(0, min(1, len(services))), self._service(failed, "failed"))
        return compact({"services": services})

    def service_status(self, name, state=None):
        """The state of a service: this one, or any."""
        state = state or self.values.choose(["running"] * 5 + ["failed", "stopped", "restarting", "unneeded"])
        return compact({"info": self._service(name, state)})

    def restart_service(self, name):
        return compact({"info": self._service(name)})

    def stop_service(self, name):
        return "done"

    def log_text(self, service):
        program, word = self.values.choose(PROGRAMS), self.values.word()
        return self.values.choose(
            [
                f"session `{word}` opened",
                f"program `{program}` was started",
                f"service `{self.values.choose(SERVICES)}` is started again, as was asked",
                f"service `{self.values.choose(SERVICES)}` was stopped",
                f"disk of {self.random.randint(1000, 90000)} blocks of 512 bytes",
                f"{self.random.randint(1, 9)} models registered",
                f"{self.random.randint(1, 40)} files from scenario/home",
                f"{word} cannot be read: {self.values.word()} is missing",
                f"no answer from {self.values.choose(SERVICES)}",
                self.values.sentence(3, 7),
            ]
        )

    def read_log(self, service="", minimum="info", lastSeconds=3600, max=100):
        levels = ["debug", "info", "warning", "error"]
        levels = levels[levels.index(minimum) :]
        count = min(max, self.values.choose([0, 1, 1, 2, 3, 4, 6]))
        entries, sequence, clock = [], self.random.randint(1, 300), self.random.randint(10**9, 10**11)
        for _ in range(count):
            sequence += self.random.randint(1, 4)
            clock += self.random.randint(10**6, 10**10)
            who = service or self.values.choose(SERVICES)
            entries.append(
                {
                    "sequence": sequence,
                    "nanoseconds": clock,
                    "level": self.values.choose(levels),
                    "service": who,
                    "text": self.log_text(who),
                }
            )
        return compact({"entries": entries})

    def _entry(self, name, kind):
        size = self.values.choose([0, self.random.randint(1, 99), self.random.randint(100, 60_000)])
        bytes_ = size if kind == "file" else 0
        return {
            "name": name,
            "kind": kind,
            "bytes": bytes_,
            "modifiedUnix": 1_700_000_000 + self.random.randint(0, 10**8),
        }

    def list_directory(self, path, first=None):
        """The entries of a folder; `first` is the name of a file that comes first."""
        entries = [self._entry(first, "file")] if first else []
        for _ in range(self.values.choose([0, 1, 2, 2, 3, 3, 4, 5, 7])):
            folder = self.values.chance(0.25)
            name = self.values.word() if folder else self.values.file_name()
            entries.append(self._entry(name, "directory" if folder else "file"))
        return compact({"entries": entries, "leftOut": self._left_out()})

    def _left_out(self):
        """How much of a list is left out."""
        return self.random.randint(1, 90) if self.values.chance(0.03) else 0

    def file_info(self, path):
        kind = "file" if "." in path or self.values.chance(0.2) else "directory"
        return compact({"info": self._entry(path.rsplit("/", 1)[-1], kind)})

    def read_file(self, path, short=False, offset=0, length=0):
        """A text; a short one if it is to be written again."""
        if short:
            return self.values.sentence(1, 6) + self.values.choose(["", "\n"])
        if self.values.chance(0.05):
            return ""
        count = self.values.choose([1, 1, 1, 2, 3, 5])
        lines = [self.values.sentence(1, 9) for _ in range(count)]
        if self.values.chance(0.2):
            lines = [f"{self.values.word()}={self.values.word()}" for _ in lines]
        if count > 1 and self.values.chance(0.2):
            lines.insert(1, "")
        return "\n".join(lines) + ("\n" if self.values.chance(0.7) else "")

    def write_file(self, path, text, append=False):
        return "done"

    def delete_file(self, path):
        return "done"

    def make_directory(self, path):
        return "done"

    def _left(self, seconds=None):
        """How long it is, as the shell tells it; any time if it is not given."""
        seconds = seconds or self.random.randint(60, 86_399)
        if seconds < 60:
            return f"{seconds} s"
        minutes = seconds // 60 % 60
        return f"{seconds // 3600} h {minutes} min" if seconds >= 3600 else f"{minutes} min {seconds % 60} s"

    def remind(self, text, afterSeconds=None, time=""):
        number = self.random.randint(1, 12)
        return f"reminder {number} comes in {self._left(afterSeconds)}; /remind cancel {number} drops it"

    def copy_file(self, source, to):
        least, most = (0, 99) if self.values.chance(0.3) else (100, 60_000)
        return compact({"bytes": self.random.randint(least, most)})

    def move_file(self, source, to):
        return "done"

    def _below(self, path):
        """A folder at a path or below it, as a path's beginning."""
        parts = ([] if path == "." else [path]) + ([self.values.folder()] if self.values.chance(0.5) else [])
        return "".join(f"{part}/" for part in parts)

    def find_files(self, name, path, some=False):
        """Files with such a name; `some` if there has to be one."""
        entries = []
        for _ in range(self.values.choose([1, 1, 2] if some else [0, 1, 1, 1, 2, 3])):
            found = name.replace("*", self.values.word())
            if "*" not in name and "." not in name:
                found = self.values.choose(["{0}.{1}", "{0}.{1}", "{2}-{0}.{1}", "{0}-{2}.{1}", "{0}"]).format(
                    name, self.values.choose(EXTENSIONS), self.values.word()
                )
            kind = "file" if "." in found else "directory"
            entries.append(self._entry(self._below(path) + found, kind))
        return compact({"entries": entries, "leftOut": self._left_out()})

    def search_files(self, text, path, some=False):
        """Lines with a text; `some` if there have to be any."""
        matches, line = [], 0
        for _ in range(self.values.choose([1, 1, 2] if some else [0, 1, 1, 2, 3])):
            line += self.random.randint(1, 20)
            file = path if "." in path[1:] else self._below(path) + self.values.file_name()
            words = [self.values.sentence(1, 4), text, self.values.sentence(1, 4)]
            shown = " ".join(words[self.random.randint(0, 1) : self.random.randint(2, 3)])
            matches.append({"path": file, "line": line, "text": shown})
        left_out, not_searched = self._left_out(), self.values.choose([0, 0, 0, 1, 2])
        return compact({"matches": matches, "leftOut": left_out, "notSearched": not_searched})

    def list_programs(self, first=None):
        """The programs; `first` is the one that comes first."""
        names = self.random.sample(PROGRAMS, self.random.randint(2, len(PROGRAMS)))
        if self.values.chance(0.3):
            names = [self.values.name() for _ in names]
        return compact({"names": ([first] if first else []) + [name for name in names if name != first]})

    def run_program(self, program, arguments=()):
        if self.values.chance(0.15):
            code = self.values.choose([1, 2, 3, 101])
            report = "it panicked; the log says where" if code == 101 else f"it ended with code {code}"
            return compact({"result": {"code": code, "output": "", "report": report}})
        if program.startswith("hello"):
            output = f"Hello, {arguments[0] if arguments else self.values.choose(PEOPLE)}!\n"
        else:
            output = self.values.choose(["", self.read_file(""), f"{self.values.number()}\n"])
        return compact({"result": {"code": 0, "output": output, "report": "it ended by itself"}})

    def power_off(self):
        return "done"
