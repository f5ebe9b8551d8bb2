"""Scenes of second turns: what is done about what the turn before was about, or about what it brought.

They take the same as those of `scenes.py`; `before` is the arguments of the call of the turn before, and `result` is its result.
"""

import json

from .conversation import compact
from .stage import beside, steps, under


def _it(name, argument, old, new=None, /, **more):
    """A call about what the turn before was about (`old` names its argument), or about `new`."""

    def play(stage, values):
        about = values[new] if new else values["before"][old]
        given = {key: slot if slot is True else values[slot] for key, slot in more.items()}
        return stage.call(name, **{argument: about}, **given)

    return play


def _read_first(stage, values):
    names = [entry["name"] for entry in json.loads(values["result"])["entries"]]
    return stage.call("read_file", path=under(values["before"]["path"], names[0]))


def _rename_it(stage, values):
    path = values["before"]["path"]
    return stage.call("move_file", **{"from": path, "to": beside(path, values["file"])})


def _into(name):
    """A call that takes the file of the turn before into a folder."""

    def play(stage, values):
        path = values["before"]["path"]
        return stage.call(name, **{"from": path, "to": under(values["folder"], path.rsplit("/", 1)[-1])})

    return play


def _first_found(name, members):
    """A call about the first file of a list that the turn before brought."""

    def play(stage, values):
        first = json.loads(values["result"])[members][0]
        return stage.call(name, path=first["name" if members == "entries" else "path"])

    return play


def picked(found, at):
    """What is at this place of a list of several, if it is a file; nothing otherwise."""
    found = json.loads(found)
    entries = found["entries"] if "entries" in found else found["matches"]
    if len(entries) < 2 or entries[at].get("kind", "file") != "file":
        return None
    return entries[at]["name"] if "entries" in found else entries[at]["path"]


def _picked(name, at):
    """A call about what is at this place of the list that the turn before brought."""

    def play(stage, values):
        path, before = picked(values["result"], at), values["before"]
        # A list of a folder has names, and what was found has paths.
        inside = set(before) == {"path"}
        return stage.call(name, path=under(before["path"], path) if inside else path)

    return play


def _named(name):
    """A call about a file that the list of the turn before has in it."""

    def play(stage, values):
        return stage.call(name, path=under(values["before"]["path"], values["file"]))

    return play


def named(found, name, at, kind="file"):
    """A list of a folder that has a file of this name at this place, or at its end; or another kind of thing."""
    found = json.loads(found)
    entries = [entry for entry in found["entries"] if entry["name"] != name]
    file = next(entry for entry in found["entries"] if entry["kind"] == "file")
    entries.insert(at, {**file, "name": name, **({} if kind == "file" else {"kind": kind, "bytes": 0})})
    return compact({**found, "entries": entries})


def with_service(found, name, at):
    """A list of services that has one of this name, in place of another."""
    found = json.loads(found)
    services = found["services"]
    if all(service["name"] != name for service in services):
        services[at % len(services)]["name"] = name
    return compact(found)


def failed_one(found):
    """The service of a list that has failed."""
    return next(service["name"] for service in json.loads(found)["services"] if service["state"] == "failed")


def _failed_it(name, argument):
    """A call about the service that has failed among those that the turn before brought."""

    def play(stage, values):
        return stage.call(name, **{argument: failed_one(values["result"])})

    return play


def _into_it(name):
    """A call that takes a file into the folder of the turn before."""

    def play(stage, values):
        return stage.call(name, **{"from": values["file"], "to": under(values["before"]["path"], values["file"])})

    return play


def _write_into_it(stage, values):
    return stage.call("write_file", path=under(values["before"]["path"], values["file"]), text=values["text"])


def _move_back(stage, values):
    before = values["before"]
    return stage.call("move_file", **{"from": before["to"], "to": before["from"]})


def _repeated(name, **more):
    """The call of the turn before once more, with some arguments other ones: texts, or slots of the pattern."""

    def play(stage, values):
        return stage.call(name, **{**values["before"], **{key: values.get(slot, slot) for key, slot in more.items()}})

    return play


def _run_with(slot):
    """The program of the turn before with another argument."""

    def play(stage, values):
        return stage.call("run_program", program=values["before"]["program"], arguments=[str(values[slot])])

    return play


def _found_taken(name):
    """A call that takes the first file that the turn before found into a folder."""

    def play(stage, values):
        path = json.loads(values["result"])["entries"][0]["name"]
        return stage.call(name, **{"from": path, "to": under(values["folder"], path.rsplit("/", 1)[-1])})

    return play


def _run_at(at):
    """A run of the program at this place of the list that the turn before brought."""

    def play(stage, values):
        return stage.call("run_program", program=json.loads(values["result"])["names"][at])

    return play


def _run_first_it(stage, values):
    return stage.call("run_program", program=json.loads(values["result"])["names"][0])


def _logged_it(**more):
    """The log of the service that the turn before was about; `more` are texts, or slots of the pattern."""

    def play(stage, values):
        return stage.call("read_log", service=values["before"]["name"], **{key: values.get(slot, slot) for key, slot in more.items()})

    return play


def _without(name, argument):
    """The call of the turn before once more without one of its arguments."""

    def play(stage, values):
        return stage.call(name, **{key: value for key, value in values["before"].items() if key != argument})

    return play


def _beside_it(name, old, **more):
    """A call about a file in the folder of that which `old` names in the call of the turn before."""

    def play(stage, values):
        path = beside(values["before"][old], values["file"])
        return stage.call(name, path=path, **{key: values[slot] for key, slot in more.items()})

    return play


def _next_to_it(name):
    """A call that takes another file to the place to which the turn before took one."""

    def play(stage, values):
        return stage.call(name, **{"from": values["file"], "to": beside(values["before"]["to"], values["file"])})

    return play


def _rename_new(stage, values):
    path = values["before"]["to"]
    return stage.call("move_file", **{"from": path, "to": beside(path, values["file"])})


def _rename_made(stage, values):
    path = values["before"]["path"]
    return stage.call("move_file", **{"from": path, "to": beside(path, values["folder2"])})


def _list_around(stage, values):
    return stage.call("list_directory", path=values["before"]["path"].rpartition("/")[0] or ".")


def _below_it(name, slot):
    """A call about something in the folder of the turn before."""

    def play(stage, values):
        return stage.call(name, path=under(values["before"]["path"], values[slot]))

    return play


def _named_into(name):
    """A call that takes a file of the list of the turn before into another folder."""

    def play(stage, values):
        path = under(values["before"]["path"], values["file"])
        return stage.call(name, **{"from": path, "to": under(values["folder"], values["file"])})

    return play


def _append_named(stage, values):
    return stage.call("write_file", path=under(values["before"]["path"], values["file"]), text=values["text"], append=True)


def _copy_second(stage, values):
    return stage.call("copy_file", **{"from": picked(values["result"], 1), "to": values["path2"]})


# Each scene with the tools that it may need.
SCENES = {
    "delete_it": (["delete_file"], _it("delete_file", "path", "path")),
    "read_it": (["read_file"], _it("read_file", "path", "path")),
    "info_it": (["file_info"], _it("file_info", "path", "path")),
    "write_it": (["write_file"], _it("write_file", "path", "path", text="text")),
    "read_other": (["read_file"], _it("read_file", "path", "path", "path2")),
    "info_other": (["file_info"], _it("file_info", "path", "path", "path2")),
    "list_other": (["list_directory"], _it("list_directory", "path", "path", "folder2")),
    "status_other": (["service_status"], _it("service_status", "name", "name", "service2")),
    "restart_other": (["restart_service"], _it("restart_service", "name", "name", "service2")),
    "restart_it": (["restart_service"], _it("restart_service", "name", "name")),
    "stop_it": (["stop_service"], _it("stop_service", "name", "name")),
    "status_it": (["service_status"], _it("service_status", "name", "name")),
    "log_it": (["read_log"], _it("read_log", "service", "name")),
    "read_first": (["read_file"], _read_first),
    "run_first_it": (["run_program"], _run_first_it),
    "append_it": (["write_file"], _it("write_file", "path", "path", text="text", append=True)),
    "copy_it": (["copy_file"], _it("copy_file", "from", "path", to="path2")),
    "copy_it_into": (["copy_file"], _into("copy_file")),
    "move_it": (["move_file"], _it("move_file", "from", "path", to="path2")),
    "move_it_into": (["move_file"], _into("move_file")),
    "rename_it": (["move_file"], _rename_it),
    "read_new": (["read_file"], _it("read_file", "path", "to")),
    "append_new": (["write_file"], _it("write_file", "path", "to", text="text", append=True)),
    "delete_old": (["delete_file"], _it("delete_file", "path", "from")),
    "delete_new": (["delete_file"], _it("delete_file", "path", "to")),
    "read_found": (["read_file"], _first_found("read_file", "entries")),
    "delete_found": (["delete_file"], _first_found("delete_file", "entries")),
    "info_found": (["file_info"], _first_found("file_info", "entries")),
    "read_match": (["read_file"], _first_found("read_file", "matches")),
    "find_other": (["find_files"], _it("find_files", "name", "name", "part2", path="there")),
    "search_other": (["search_files"], _it("search_files", "text", "text", "phrase2", path="there")),
    "search_it": (["search_files"], _it("search_files", "path", "path", text="phrase")),
    "find_in_it": (["find_files"], _it("find_files", "path", "path", name="part")),
    "read_named": (["read_file"], _named("read_file")),
    "delete_named": (["delete_file"], _named("delete_file")),
    "info_named": (["file_info"], _named("file_info")),
    "read_second": (["read_file"], _picked("read_file", 1)),
    "read_last": (["read_file"], _picked("read_file", -1)),
    "delete_second": (["delete_file"], _picked("delete_file", 1)),
    "delete_top": (["delete_file"], _picked("delete_file", 0)),
    "info_top": (["file_info"], _picked("file_info", 0)),
    "restart_failed_it": (["restart_service"], _failed_it("restart_service", "name")),
    "log_failed_it": (["read_log"], _failed_it("read_log", "service")),
    "restart_logged": (["restart_service"], _it("restart_service", "name", "service")),
    "stop_logged": (["stop_service"], _it("stop_service", "name", "service")),
    "status_logged": (["service_status"], _it("service_status", "name", "service")),
    "log_other": (["read_log"], _repeated("read_log", service="service2")),
    "log_errors": (["read_log"], _repeated("read_log", minimum="error")),
    "log_newest": (["read_log"], _repeated("read_log", max="max")),
    "stop_other": (["stop_service"], _it("stop_service", "name", "name", "service2")),
    "delete_other": (["delete_file"], _it("delete_file", "path", "path", "path2")),
    "run_again": (["run_program"], _repeated("run_program")),
    "run_with_path": (["run_program"], _run_with("path")),
    "run_with_word": (["run_program"], _run_with("word")),
    "run_other": (["run_program"], _it("run_program", "program", "program", "program2")),
    "run_second": (["run_program"], _run_at(1)),
    "run_last": (["run_program"], _run_at(-1)),
    "move_into_it": (["move_file"], _into_it("move_file")),
    "copy_into_it": (["copy_file"], _into_it("copy_file")),
    "write_into_it": (["write_file"], _write_into_it),
    "list_it": (["list_directory"], _it("list_directory", "path", "path")),
    "move_back": (["move_file"], _move_back),
    "info_new": (["file_info"], _it("file_info", "path", "to")),
    "copy_found": (["copy_file"], _found_taken("copy_file")),
    "move_found": (["move_file"], _found_taken("move_file")),
    "list_in_it": (["list_directory"], _below_it("list_directory", "folder")),
    "find_in_folder": (["find_files"], _repeated("find_files", path="folder")),
    "find_everywhere": (["find_files"], _repeated("find_files", path=".")),
    "search_in_folder": (["search_files"], _repeated("search_files", path="folder")),
    "search_in_file": (["search_files"], _repeated("search_files", path="path2")),
    "search_everywhere": (["search_files"], _repeated("search_files", path=".")),
    "log_warnings": (["read_log"], _repeated("read_log", minimum="warning")),
    "log_since": (["read_log"], _repeated("read_log", lastSeconds="duration")),
    "log_all": (["read_log"], _without("read_log", "service")),
    "log_errors_it": (["read_log"], _logged_it(minimum="error")),
    "log_newest_it": (["read_log"], _logged_it(max="max")),
    "log_since_it": (["read_log"], _logged_it(lastSeconds="duration")),
    "write_other": (["write_file"], _repeated("write_file", path="path2")),
    "write_beside": (["write_file"], _beside_it("write_file", "path", text="text")),
    "read_beside": (["read_file"], _beside_it("read_file", "path")),
    "info_beside": (["file_info"], _beside_it("file_info", "path")),
    "delete_beside": (["delete_file"], _beside_it("delete_file", "path")),
    "rename_made": (["move_file"], _rename_made),
    "list_around": (["list_directory"], _list_around),
    "copy_other": (["copy_file"], _repeated("copy_file", to="path2")),
    "copy_next": (["copy_file"], _next_to_it("copy_file")),
    "move_next": (["move_file"], _next_to_it("move_file")),
    "move_again": (["move_file"], _it("move_file", "from", "to", to="path2")),
    "rename_new": (["move_file"], _rename_new),
    "make_other": (["make_directory"], _it("make_directory", "path", "path", "folder2")),
    "make_inside": (["make_directory"], _below_it("make_directory", "word")),
    "info_second": (["file_info"], _picked("file_info", 1)),
    "copy_second": (["copy_file"], _copy_second),
    "copy_named": (["copy_file"], _named_into("copy_file")),
    "move_named": (["move_file"], _named_into("move_file")),
    "append_named": (["write_file"], _append_named),
    "restart_named": (["restart_service"], _it("restart_service", "name", "name", "service")),
    "stop_named": (["stop_service"], _it("stop_service", "name", "name", "service")),
    "status_named": (["service_status"], _it("service_status", "name", "name", "service")),
    "log_named": (["read_log"], _it("read_log", "service", "name", "service")),
    "run_plain": (["run_program"], _without("run_program", "arguments")),
    "programs_now": steps(("list_programs", {})),
    "status_again": (["service_status"], _repeated("service_status")),
    "services_now": steps(("list_services", {})),
    "system_now": steps(("system_status", {})),
    "log_now": steps(("read_log", {})),
}

# What people say most often after an answer: training draws it more often than the rest.
OFTEN = {"read_named", "delete_named", "info_named", "copy_named", "move_named", "append_named", "list_in_it"}
OFTEN |= {"restart_it", "stop_it", "status_it", "log_it", "log_errors_it", "restart_logged", "stop_logged", "status_logged"}
OFTEN |= {"log_errors", "log_newest", "log_since", "log_other", "status_other", "restart_other", "restart_failed_it", "log_failed_it"}
OFTEN |= {"append_it", "write_it", "delete_it", "read_it", "info_it", "copy_it", "move_it", "rename_it", "copy_it_into", "move_it_into"}
OFTEN |= {"read_new", "info_new", "append_new", "delete_old", "delete_new", "move_back", "rename_new", "move_into_it", "rename_made"}
OFTEN |= {"find_in_folder", "find_other", "search_in_folder", "search_in_file", "search_other", "run_with_word", "run_again"}
OFTEN |= {"read_found", "delete_found", "read_match", "search_it", "make_inside", "copy_into_it", "write_into_it"}

# Scenes that need a folder in the turn before, other than that in which one is.
INTO = {"move_into_it", "copy_into_it", "find_everywhere", "search_everywhere"}

# Scenes that need a folder to which something was taken.
TAKEN = {"copy_next", "move_next"}

# Scenes about what is at a place of a list of several, with the place.
PICKED = {"read_second": 1, "read_last": -1, "delete_second": 1, "delete_top": 0, "info_top": 0}
PICKED |= {"info_second": 1, "copy_second": 1}
# About a file, a folder or a service of a list by its name, about the service in it that has failed.
NAMED = {"read_named", "delete_named", "info_named", "copy_named", "move_named", "append_named"}
LISTED = {"list_in_it"}
NAMED_SERVICE = {"restart_named", "stop_named", "status_named", "log_named"}
FAILED = {"restart_failed_it", "log_failed_it"}
# What the call of the turn before must have: the service whose log was read, arguments of a program.
NEEDS = {"restart_logged": "service", "stop_logged": "service", "status_logged": "service", "log_all": "service"}
NEEDS |= {"run_plain": "arguments"}
