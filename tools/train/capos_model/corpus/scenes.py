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
        try:
            self.answer([SCENES[scene][1](self, values)])
        except Over:
            pass


def under(folder, name):
    """A path of a file or folder in a folder."""
    return name if folder == "." else f"{folder}/{name}"


def _copy(stage, values):
    # A text that is written again is short, and all of it is shown.
    text = stage.shown("read_file", {"path": values["path1"]}, short=True)
    return stage.call("write_file", path=values["path2"], text=text)


def _move(stage, values):
    _copy(stage, values)
    return stage.call("delete_file", path=values["path1"])


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


def _it(name, argument, old, new=None, **more):
    """A call about what the turn before was about (`old` names its argument), or about `new`."""

    def play(stage, values):
        about = values[new] if new else values["before"][old]
        given = {key: values[slot] for key, slot in more.items()}
        return stage.call(name, **{argument: about}, **given)

    return play


def _read_first(stage, values):
    names = [entry["name"] for entry in json.loads(values["result"])["entries"]]
    return stage.call("read_file", path=under(values["before"]["path"], names[0]))


def _run_first_it(stage, values):
    return stage.call("run_program", program=json.loads(values["result"])["names"][0])


# Each scene with the tools that it may need.
SCENES = {
    "copy": (["read_file", "write_file"], _copy),
    "move": (["read_file", "write_file", "delete_file"], _move),
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
}

# Scenes whose calls are made side by side.
PARALLEL = {"read_two", "read_three", "status_two", "info_two", "list_two", "make_two", "delete_two", "delete_three"}
