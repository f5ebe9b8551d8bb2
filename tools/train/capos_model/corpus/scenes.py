"""Scenes: how the calls for a request follow from one another and from their results.

Each takes a stage and the values of its pattern and plays the calls. If a call fails, the scene is over.
"""

import json

from . import answers
from .conversation import Call, compact, invoke, result, say


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
        """Plays a scene to its end, the answer included."""
        self.finish(lambda: SCENES[scene][1](self, values))

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


def _said(template, values):
    """A value, or a text with some in it; a list of texts is one of values."""
    if isinstance(template, list):
        return [str(_said(part, values)) for part in template]
    return values[template[1:-1]] if template[1:-1] in values else template.format(**values)


def _steps(*steps):
    """Calls after one another, each a tool and its arguments: templates for the values, or `True`."""

    def play(stage, values):
        for name, arguments in steps:
            given = {key: part if part is True else _said(part, values) for key, part in arguments.items()}
            found = stage.call(name, **given)
        return found

    return [name for name, _ in steps], play


def _found_then(name, /, **more):
    """Looks for a file by its name, and calls a tool for the first that is found; `more` are slots, or `True`."""

    def play(stage, values):
        listed = stage.shown("find_files", {"name": values["part"], "path": "."}, some=True)
        found = json.loads(listed)["entries"][0]["name"]
        return stage.call(name, path=found, **{key: slot if slot is True else values[slot] for key, slot in more.items()})

    return ["find_files", name], play


def _found_into(name):
    """Looks for a file by its name, and takes the first that is found into a folder."""

    def play(stage, values):
        listed = stage.shown("find_files", {"name": values["part"], "path": "."}, some=True)
        found = json.loads(listed)["entries"][0]["name"]
        return stage.call(name, **{"from": found, "to": under(values["folder"], found.rsplit("/", 1)[-1])})

    return ["find_files", name], play


def _searched_then(name):
    """Looks for a text, and calls a tool for the first file that has it."""

    def play(stage, values):
        listed = stage.shown("search_files", {"text": values["phrase"], "path": "."}, some=True)
        return stage.call(name, path=json.loads(listed)["matches"][0]["path"])

    return ["search_files", name], play


def _searched_into(name):
    """Looks for a text, and takes the first file that has it into a folder."""

    def play(stage, values):
        listed = stage.shown("search_files", {"text": values["phrase"], "path": "."}, some=True)
        found = json.loads(listed)["matches"][0]["path"]
        return stage.call(name, **{"from": found, "to": under(values["folder"], found.rsplit("/", 1)[-1])})

    return ["search_files", name], play


def _into_new_folder(name):
    """Makes a folder, and takes two files into it."""

    def play(stage, values):
        stage.call("make_directory", path=values["folder"])
        files = (values["file1"], values["file2"])
        stage.answer(stage.calls([(name, {"from": file, "to": under(values["folder"], file)}) for file in files]))
        raise Over

    return ["make_directory", name], play


def _delete_two_list(stage, values):
    stage.calls([("delete_file", {"path": under(values["folder"], values[slot])}) for slot in ("file1", "file2")])
    return stage.call("list_directory", path=values["folder"])


def _note_in_folder(stage, values):
    stage.call("make_directory", path=values["folder"])
    return stage.call("write_file", path=under(values["folder"], values["file"]), text=values["text"])


def _note_in_folder_list(stage, values):
    _note_in_folder(stage, values)
    return stage.call("list_directory", path=values["folder"])


def _restart_check(stage, values):
    stage.call("restart_service", name=values["service"])
    return stage.call("service_status", name=values["service"])


def _failed_service(stage):
    failed = stage.machine.values.choose(stage.machine.services())
    stage.shown("list_services", {}, failed=failed)
    return failed


def _restart_failed(stage, values):
    return stage.call("restart_service", name=_failed_service(stage))


def _log_failed(stage, values):
    return stage.call("read_log", service=_failed_service(stage))


def _first_file(stage, values):
    return _first_listed("read_file", stage, values)


def _delete_first(stage, values):
    return _first_listed("delete_file", stage, values)


def _first_listed(tool, stage, values):
    name = stage.machine.values.file_name()
    stage.shown("list_directory", {"path": values["folder"]}, first=name)
    return stage.call(tool, path=under(values["folder"], name))


def _if_state(states, name):
    """Looks at the state of a service, and calls a tool for it if it is one of these."""

    def play(stage, values):
        # What is neither running nor down is left to others.
        state = stage.machine.values.choose(["running", "failed", "stopped"])
        found = stage.shown("service_status", {"name": values["service"]}, state=state)
        return stage.call(name, name=values["service"]) if state in states else found

    return ["service_status", name], play


def _delete_if_there(stage, values):
    stage.call("file_info", path=values["path"])
    return stage.call("delete_file", path=values["path"])


def _run_first(stage, values):
    name = stage.machine.values.program()
    stage.shown("list_programs", {}, first=name)
    return stage.call("run_program", program=name)


def _delete_list(stage, values):
    stage.call("delete_file", path=under(values["folder"], values["file"]))
    return stage.call("list_directory", path=values["folder"])


def _stop_list(stage, values):
    stage.call("stop_service", name=values["service"])
    return stage.call("list_services")


def _save_log(stage, values):
    found = json.loads(stage.call("read_log", max=1, service=values["service"]))["entries"]
    text = found[0]["text"] if found else ""
    if not found:
        return json.dumps({"entries": []})
    return stage.call("write_file", path=values["path"], text=text)


def _save_output(stage, values):
    ran = json.loads(stage.call("run_program", program=values["program"]))["result"]
    if ran["code"] or not ran["output"] or len(ran["output"]) > 80:
        return json.dumps({"result": ran})
    return stage.call("write_file", path=values["path"], text=ran["output"])


def _status_log(stage, values):
    stage.call("service_status", name=values["service"])
    return stage.call("read_log", service=values["service"])


def _each(name, argument, slots):
    def play(stage, values):
        found = stage.calls([(name, {argument: values[slot]}) for slot in slots])
        stage.answer(found)
        raise Over

    return play


def _sides(name, *calls):
    """Calls of one tool side by side; their arguments are templates."""

    def play(stage, values):
        wanted = [{key: part.format(**values) for key, part in arguments.items()} for arguments in calls]
        stage.answer(stage.calls([(name, arguments) for arguments in wanted]))
        raise Over

    return [name], play


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
    "note_in_folder": (["make_directory", "write_file"], _note_in_folder),
    "note_in_folder_list": (["make_directory", "write_file", "list_directory"], _note_in_folder_list),
    "restart_check": (["restart_service", "service_status"], _restart_check),
    "restart_failed": (["list_services", "restart_service"], _restart_failed),
    "log_failed": (["list_services", "read_log"], _log_failed),
    "first_file": (["list_directory", "read_file"], _first_file),
    "delete_if_there": (["file_info", "delete_file"], _delete_if_there),
    "run_first": (["list_programs", "run_program"], _run_first),
    "delete_list": (["delete_file", "list_directory"], _delete_list),
    "stop_list": (["stop_service", "list_services"], _stop_list),
    "save_log": (["read_log", "write_file"], _save_log),
    "save_output": (["run_program", "write_file"], _save_output),
    "status_log": (["service_status", "read_log"], _status_log),
    "read_two": (["read_file"], _each("read_file", "path", ["path1", "path2"])),
    "read_three": (["read_file"], _each("read_file", "path", ["path1", "path2", "path3"])),
    "status_two": (["service_status"], _each("service_status", "name", ["service1", "service2"])),
    "info_two": (["file_info"], _each("file_info", "path", ["path1", "path2"])),
    "list_two": (["list_directory"], _each("list_directory", "path", ["folder1", "folder2"])),
    "make_two": (["make_directory"], _each("make_directory", "path", ["folder1", "folder2"])),
    "delete_two": (["delete_file"], _each("delete_file", "path", ["path1", "path2"])),
    "delete_three": (["delete_file"], _each("delete_file", "path", ["path1", "path2", "path3"])),
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
    # Two things at once: the second is about what the first is about.
    "read_delete": _steps(("read_file", {"path": "{path}"}), ("delete_file", {"path": "{path}"})),
    "info_delete": _steps(("file_info", {"path": "{path}"}), ("delete_file", {"path": "{path}"})),
    "read_copy": _steps(("read_file", {"path": "{path1}"}), ("copy_file", {"from": "{path1}", "to": "{path2}"})),
    "read_append": _steps(
        ("read_file", {"path": "{path}"}), ("write_file", {"path": "{path}", "text": "{text}", "append": True})
    ),
    "copy_read": _steps(("copy_file", {"from": "{path1}", "to": "{path2}"}), ("read_file", {"path": "{path2}"})),
    "copy_write": _steps(
        ("copy_file", {"from": "{path1}", "to": "{path2}"}), ("write_file", {"path": "{path1}", "text": "{text}"})
    ),
    "copy_append": _steps(
        ("copy_file", {"from": "{path1}", "to": "{path2}"}),
        ("write_file", {"path": "{path2}", "text": "{text}", "append": True}),
    ),
    "move_read": _steps(("move_file", {"from": "{file1}", "to": "{file2}"}), ("read_file", {"path": "{file2}"})),
    "move_list": _steps(
        ("move_file", {"from": "{file}", "to": "{folder}/{file}"}), ("list_directory", {"path": "{folder}"})
    ),
    "folder_move": _steps(
        ("make_directory", {"path": "{folder}"}), ("move_file", {"from": "{file}", "to": "{folder}/{file}"})
    ),
    "folder_copy": _steps(
        ("make_directory", {"path": "{folder}"}), ("copy_file", {"from": "{file}", "to": "{folder}/{file}"})
    ),
    "write_read": _steps(("write_file", {"path": "{path}", "text": "{text}"}), ("read_file", {"path": "{path}"})),
    "write_info": _steps(("write_file", {"path": "{path}", "text": "{text}"}), ("file_info", {"path": "{path}"})),
    "append_read": _steps(
        ("write_file", {"path": "{path}", "text": "{text}", "append": True}), ("read_file", {"path": "{path}"})
    ),
    "restart_log": _steps(("restart_service", {"name": "{service}"}), ("read_log", {"service": "{service}"})),
    "status_restart": _steps(("service_status", {"name": "{service}"}), ("restart_service", {"name": "{service}"})),
    "log_restart": _steps(("read_log", {"service": "{service}"}), ("restart_service", {"name": "{service}"})),
    "stop_status": _steps(("stop_service", {"name": "{service}"}), ("service_status", {"name": "{service}"})),
    "run_log": _steps(("run_program", {"program": "{program}"}), ("read_log", {})),
    "find_read": _found_then("read_file"),
    "find_delete": _found_then("delete_file"),
    "find_info": _found_then("file_info"),
    "search_read": _searched_then("read_file"),
    "search_delete": _searched_then("delete_file"),
    "move_two": _sides(
        "move_file", {"from": "{file1}", "to": "{folder}/{file1}"}, {"from": "{file2}", "to": "{folder}/{file2}"}
    ),
    "copy_two": _sides(
        "copy_file", {"from": "{file1}", "to": "{folder}/{file1}"}, {"from": "{file2}", "to": "{folder}/{file2}"}
    ),
    "restart_two": _sides("restart_service", {"name": "{service1}"}, {"name": "{service2}"}),
    "stop_two": _sides("stop_service", {"name": "{service1}"}, {"name": "{service2}"}),
    "write_two": _sides("write_file", {"path": "{path1}", "text": "{text1}"}, {"path": "{path2}", "text": "{text2}"}),
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
    # What only rows of training have.
    "restart_if_down": _if_state(["failed", "stopped"], "restart_service"),
    "stop_if_up": _if_state(["running"], "stop_service"),
    "status_stop": _steps(("service_status", {"name": "{service}"}), ("stop_service", {"name": "{service}"})),
    "stop_log": _steps(("stop_service", {"name": "{service}"}), ("read_log", {"service": "{service}"})),
    "log_stop": _steps(("read_log", {"service": "{service}"}), ("stop_service", {"name": "{service}"})),
    "errors_restart": _steps(
        ("read_log", {"service": "{service}", "minimum": "error"}), ("restart_service", {"name": "{service}"})
    ),
    "swap": _steps(("stop_service", {"name": "{service1}"}), ("restart_service", {"name": "{service2}"})),
    "copy_delete": _steps(("copy_file", {"from": "{path1}", "to": "{path2}"}), ("delete_file", {"path": "{path1}"})),
    "copy_list": _steps(
        ("copy_file", {"from": "{file}", "to": "{folder}/{file}"}), ("list_directory", {"path": "{folder}"})
    ),
    "write_list": _steps(
        ("write_file", {"path": "{folder}/{file}", "text": "{text}"}), ("list_directory", {"path": "{folder}"})
    ),
    "write_copy": _steps(
        ("write_file", {"path": "{path1}", "text": "{text}"}), ("copy_file", {"from": "{path1}", "to": "{path2}"})
    ),
    "read_write": _steps(("read_file", {"path": "{path}"}), ("write_file", {"path": "{path}", "text": "{text}"})),
    "read_move": _steps(("read_file", {"path": "{file}"}), ("move_file", {"from": "{file}", "to": "{folder}/{file}"})),
    "info_read": _steps(("file_info", {"path": "{path}"}), ("read_file", {"path": "{path}"})),
    "make_list": _steps(("make_directory", {"path": "{folder}"}), ("list_directory", {"path": "."})),
    "list_run": _steps(("list_programs", {}), ("run_program", {"program": "{program}"})),
    "find_copy": _found_into("copy_file"),
    "find_move": _found_into("move_file"),
    "delete_first": (["list_directory", "delete_file"], _delete_first),
    "run_two": _sides("run_program", {"program": "{program1}"}, {"program": "{program2}"}),
    "log_two": _sides("read_log", {"service": "{service1}"}, {"service": "{service2}"}),
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
    "delete_write": _steps(("delete_file", {"path": "{path}"}), ("write_file", {"path": "{path}", "text": "{text}"})),
    "delete_write_other": _steps(
        ("delete_file", {"path": "{path1}"}), ("write_file", {"path": "{path2}", "text": "{text}"})
    ),
    "move_write": _steps(
        ("move_file", {"from": "{path1}", "to": "{path2}"}), ("write_file", {"path": "{path1}", "text": "{text}"})
    ),
    "restart_three": (["restart_service"], _each("restart_service", "name", ["service1", "service2", "service3"])),
    "stop_three": (["stop_service"], _each("stop_service", "name", ["service1", "service2", "service3"])),
    "status_three": (["service_status"], _each("service_status", "name", ["service1", "service2", "service3"])),
    "folder_move_two": _into_new_folder("move_file"),
    "folder_copy_two": _into_new_folder("copy_file"),
    "make_into": _steps(
        ("make_directory", {"path": "{folder}"}), ("copy_file", {"from": "{path1}", "to": "{folder}/{file}"})
    ),
    "status_errors": _steps(
        ("service_status", {"name": "{service}"}), ("read_log", {"service": "{service}", "minimum": "error"})
    ),
    "status_log_since": _steps(
        ("service_status", {"name": "{service}"}), ("read_log", {"service": "{service}", "lastSeconds": "{duration}"})
    ),
    "log_errors_since_restart": _steps(
        ("read_log", {"service": "{service}", "minimum": "error", "lastSeconds": "{duration}"}),
        ("restart_service", {"name": "{service}"}),
    ),
    "log_warnings_restart": _steps(
        ("read_log", {"service": "{service}", "minimum": "warning"}), ("restart_service", {"name": "{service}"})
    ),
    "log_max_restart": _steps(
        ("read_log", {"service": "{service}", "max": "{max}"}), ("restart_service", {"name": "{service}"})
    ),
    "system_services": _steps(("system_status", {}), ("list_services", {})),
    "services_errors": _steps(("list_services", {}), ("read_log", {"minimum": "error"})),
    "services_warnings_since": _steps(
        ("list_services", {}), ("read_log", {"minimum": "warning", "lastSeconds": "{duration}"})
    ),
    "time_log": _steps(("system_status", {}), ("read_log", {"lastSeconds": "{duration}"})),
    "stop_power": _steps(("stop_service", {"name": "{service}"}), ("power_off", {})),
    "write_power": _steps(("write_file", {"path": "{path}", "text": "{text}"}), ("power_off", {})),
    "find_append": _found_then("write_file", text="text", append=True),
    "search_copy": _searched_into("copy_file"),
    "search_move": _searched_into("move_file"),
    "find_list": _steps(
        ("find_files", {"name": "{part}", "path": "."}), ("list_directory", {"path": "{folder}"})
    ),
    "list_info": _steps(("list_directory", {"path": "{folder}"}), ("file_info", {"path": "{folder}/{file}"})),
    "delete_two_list": (["delete_file", "list_directory"], _delete_two_list),
    "stop_run": _steps(("stop_service", {"name": "{service}"}), ("run_program", {"program": "{program}"})),
    "run_flag_stop": _steps(
        ("run_program", {"program": "{program}", "arguments": ["{flag}"]}), ("stop_service", {"name": "{service}"})
    ),
    "stop_run_flag": _steps(
        ("stop_service", {"name": "{service}"}), ("run_program", {"program": "{program}", "arguments": ["{flag}"]})
    ),
    "read_run": _steps(("read_file", {"path": "{path}"}), ("run_program", {"program": "{program}"})),
    "search_read_two": _steps(
        ("search_files", {"text": "{phrase}", "path": "{path1}"}), ("read_file", {"path": "{path2}"})
    ),
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
    "programs_now": _steps(("list_programs", {})),
    "status_again": (["service_status"], _repeated("service_status")),
    "services_now": _steps(("list_services", {})),
    "system_now": _steps(("system_status", {})),
    "log_now": _steps(("read_log", {})),
}

# Scenes that need a folder in the turn before, other than that in which one is.
INTO = {"move_into_it", "copy_into_it", "find_everywhere", "search_everywhere"}

# Scenes whose calls are made side by side.
PARALLEL = {"read_two", "read_three", "status_two", "info_two", "list_two", "make_two", "delete_two", "delete_three"}
PARALLEL |= {"move_two", "copy_two", "restart_two", "stop_two", "write_two", "run_two", "log_two"}
PARALLEL |= {"restart_three", "stop_three", "status_three"}

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
