"""Scenes: how the calls for a request follow from one another and from their results.

Each takes a stage and the values of its pattern and plays the calls. If a call fails, the scene is over.
"""

import json

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


def _steps(*steps):
    """Calls after one another, each a tool and its arguments: templates for the values, or `True`."""

    def play(stage, values):
        for name, arguments in steps:
            given = {key: part if part is True else part.format(**values) for key, part in arguments.items()}
            found = stage.call(name, **given)
        return found

    return [name for name, _ in steps], play


def _found_then(name, **more):
    """Looks for a file by its name, and calls a tool for the first that is found."""

    def play(stage, values):
        listed = stage.shown("find_files", {"name": values["part"], "path": "."}, some=True)
        found = json.loads(listed)["entries"][0]["name"]
        return stage.call(name, path=found, **{key: values[slot] for key, slot in more.items()})

    return ["find_files", name], play


def _search_read(stage, values):
    listed = stage.shown("search_files", {"text": values["phrase"], "path": "."}, some=True)
    return stage.call("read_file", path=json.loads(listed)["matches"][0]["path"])


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
    name = stage.machine.values.file_name()
    stage.shown("list_directory", {"path": values["folder"]}, first=name)
    return stage.call("read_file", path=under(values["folder"], name))


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


def _it(name, argument, old, new=None, **more):
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


def _run_first_it(stage, values):
    return stage.call("run_program", program=json.loads(values["result"])["names"][0])


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
    "search_read": (["search_files", "read_file"], _search_read),
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
}

# Scenes whose calls are made side by side.
PARALLEL = {"read_two", "read_three", "status_two", "info_two", "list_two", "make_two", "delete_two", "delete_three"}
PARALLEL |= {"move_two", "copy_two", "restart_two", "stop_two", "write_two"}
