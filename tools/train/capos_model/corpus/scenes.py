"""Scenes: how the calls for a request follow from one another and from their results.

Each takes a stage and the values of its pattern and plays the calls. If a call fails, the scene is over. Those of second turns are in
`second_turns.py`.
"""

import json

from .stage import Over, said, steps, under


def _first_of(tool, slot, argument, members, name):
    """A tool that looks for something, and the path of the first file that it finds."""

    def look(stage, values):
        listed = stage.shown(tool, {argument: values[slot], "path": "."}, some=True)
        return json.loads(listed)[members][0][name]

    return tool, look


_FOUND = _first_of("find_files", "part", "name", "entries", "name")
_SEARCHED = _first_of("search_files", "phrase", "text", "matches", "path")


def _then(first, name, /, **more):
    """Looks for a file, and calls a tool for the first that there is; `more` are slots, or `True`."""
    tool, look = first

    def play(stage, values):
        found = look(stage, values)
        return stage.call(name, path=found, **{key: slot if slot is True else values[slot] for key, slot in more.items()})

    return [tool, name], play


def _into(first, name):
    """Looks for a file, and takes the first that there is into a folder."""
    tool, look = first

    def play(stage, values):
        found = look(stage, values)
        return stage.call(name, **{"from": found, "to": under(values["folder"], found.rsplit("/", 1)[-1])})

    return [tool, name], play


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
    "read_delete": steps(("read_file", {"path": "{path}"}), ("delete_file", {"path": "{path}"})),
    "info_delete": steps(("file_info", {"path": "{path}"}), ("delete_file", {"path": "{path}"})),
    "read_copy": steps(("read_file", {"path": "{path1}"}), ("copy_file", {"from": "{path1}", "to": "{path2}"})),
    "read_append": steps(
        ("read_file", {"path": "{path}"}), ("write_file", {"path": "{path}", "text": "{text}", "append": True})
    ),
    "copy_read": steps(("copy_file", {"from": "{path1}", "to": "{path2}"}), ("read_file", {"path": "{path2}"})),
    "copy_write": steps(
        ("copy_file", {"from": "{path1}", "to": "{path2}"}), ("write_file", {"path": "{path1}", "text": "{text}"})
    ),
    "copy_append": steps(
        ("copy_file", {"from": "{path1}", "to": "{path2}"}),
        ("write_file", {"path": "{path2}", "text": "{text}", "append": True}),
    ),
    "move_read": steps(("move_file", {"from": "{file1}", "to": "{file2}"}), ("read_file", {"path": "{file2}"})),
    "move_list": steps(
        ("move_file", {"from": "{file}", "to": "{folder}/{file}"}), ("list_directory", {"path": "{folder}"})
    ),
    "folder_move": steps(
        ("make_directory", {"path": "{folder}"}), ("move_file", {"from": "{file}", "to": "{folder}/{file}"})
    ),
    "folder_copy": steps(
        ("make_directory", {"path": "{folder}"}), ("copy_file", {"from": "{file}", "to": "{folder}/{file}"})
    ),
    "write_read": steps(("write_file", {"path": "{path}", "text": "{text}"}), ("read_file", {"path": "{path}"})),
    "write_info": steps(("write_file", {"path": "{path}", "text": "{text}"}), ("file_info", {"path": "{path}"})),
    "append_read": steps(
        ("write_file", {"path": "{path}", "text": "{text}", "append": True}), ("read_file", {"path": "{path}"})
    ),
    "restart_log": steps(("restart_service", {"name": "{service}"}), ("read_log", {"service": "{service}"})),
    "status_restart": steps(("service_status", {"name": "{service}"}), ("restart_service", {"name": "{service}"})),
    "log_restart": steps(("read_log", {"service": "{service}"}), ("restart_service", {"name": "{service}"})),
    "stop_status": steps(("stop_service", {"name": "{service}"}), ("service_status", {"name": "{service}"})),
    "run_log": steps(("run_program", {"program": "{program}"}), ("read_log", {})),
    "find_read": _then(_FOUND, "read_file"),
    "find_delete": _then(_FOUND, "delete_file"),
    "find_info": _then(_FOUND, "file_info"),
    "search_read": _then(_SEARCHED, "read_file"),
    "search_delete": _then(_SEARCHED, "delete_file"),
    "move_two": _sides(
        "move_file", {"from": "{file1}", "to": "{folder}/{file1}"}, {"from": "{file2}", "to": "{folder}/{file2}"}
    ),
    "copy_two": _sides(
        "copy_file", {"from": "{file1}", "to": "{folder}/{file1}"}, {"from": "{file2}", "to": "{folder}/{file2}"}
    ),
    "restart_two": _sides("restart_service", {"name": "{service1}"}, {"name": "{service2}"}),
    "stop_two": _sides("stop_service", {"name": "{service1}"}, {"name": "{service2}"}),
    "write_two": _sides("write_file", {"path": "{path1}", "text": "{text1}"}, {"path": "{path2}", "text": "{text2}"}),
    "restart_if_down": _if_state(["failed", "stopped"], "restart_service"),
    "stop_if_up": _if_state(["running"], "stop_service"),
    "status_stop": steps(("service_status", {"name": "{service}"}), ("stop_service", {"name": "{service}"})),
    "stop_log": steps(("stop_service", {"name": "{service}"}), ("read_log", {"service": "{service}"})),
    "log_stop": steps(("read_log", {"service": "{service}"}), ("stop_service", {"name": "{service}"})),
    "errors_restart": steps(
        ("read_log", {"service": "{service}", "minimum": "error"}), ("restart_service", {"name": "{service}"})
    ),
    "swap": steps(("stop_service", {"name": "{service1}"}), ("restart_service", {"name": "{service2}"})),
    "copy_delete": steps(("copy_file", {"from": "{path1}", "to": "{path2}"}), ("delete_file", {"path": "{path1}"})),
    "copy_list": steps(
        ("copy_file", {"from": "{file}", "to": "{folder}/{file}"}), ("list_directory", {"path": "{folder}"})
    ),
    "write_list": steps(
        ("write_file", {"path": "{folder}/{file}", "text": "{text}"}), ("list_directory", {"path": "{folder}"})
    ),
    "write_copy": steps(
        ("write_file", {"path": "{path1}", "text": "{text}"}), ("copy_file", {"from": "{path1}", "to": "{path2}"})
    ),
    "read_write": steps(("read_file", {"path": "{path}"}), ("write_file", {"path": "{path}", "text": "{text}"})),
    "read_move": steps(("read_file", {"path": "{file}"}), ("move_file", {"from": "{file}", "to": "{folder}/{file}"})),
    "info_read": steps(("file_info", {"path": "{path}"}), ("read_file", {"path": "{path}"})),
    "make_list": steps(("make_directory", {"path": "{folder}"}), ("list_directory", {"path": "."})),
    "list_run": steps(("list_programs", {}), ("run_program", {"program": "{program}"})),
    "find_copy": _into(_FOUND, "copy_file"),
    "find_move": _into(_FOUND, "move_file"),
    "delete_first": (["list_directory", "delete_file"], _delete_first),
    "run_two": _sides("run_program", {"program": "{program1}"}, {"program": "{program2}"}),
    "log_two": _sides("read_log", {"service": "{service1}"}, {"service": "{service2}"}),
    "delete_write": steps(("delete_file", {"path": "{path}"}), ("write_file", {"path": "{path}", "text": "{text}"})),
    "delete_write_other": steps(
        ("delete_file", {"path": "{path1}"}), ("write_file", {"path": "{path2}", "text": "{text}"})
    ),
    "move_write": steps(
        ("move_file", {"from": "{path1}", "to": "{path2}"}), ("write_file", {"path": "{path1}", "text": "{text}"})
    ),
    "restart_three": (["restart_service"], _each("restart_service", "name", ["service1", "service2", "service3"])),
    "stop_three": (["stop_service"], _each("stop_service", "name", ["service1", "service2", "service3"])),
    "status_three": (["service_status"], _each("service_status", "name", ["service1", "service2", "service3"])),
    "folder_move_two": _into_new_folder("move_file"),
    "folder_copy_two": _into_new_folder("copy_file"),
    "make_into": steps(
        ("make_directory", {"path": "{folder}"}), ("copy_file", {"from": "{path1}", "to": "{folder}/{file}"})
    ),
    "status_errors": steps(
        ("service_status", {"name": "{service}"}), ("read_log", {"service": "{service}", "minimum": "error"})
    ),
    "status_log_since": steps(
        ("service_status", {"name": "{service}"}), ("read_log", {"service": "{service}", "lastSeconds": "{duration}"})
    ),
    "log_errors_since_restart": steps(
        ("read_log", {"service": "{service}", "minimum": "error", "lastSeconds": "{duration}"}),
        ("restart_service", {"name": "{service}"}),
    ),
    "log_warnings_restart": steps(
        ("read_log", {"service": "{service}", "minimum": "warning"}), ("restart_service", {"name": "{service}"})
    ),
    "log_max_restart": steps(
        ("read_log", {"service": "{service}", "max": "{max}"}), ("restart_service", {"name": "{service}"})
    ),
    "system_services": steps(("system_status", {}), ("list_services", {})),
    "services_errors": steps(("list_services", {}), ("read_log", {"minimum": "error"})),
    "services_warnings_since": steps(
        ("list_services", {}), ("read_log", {"minimum": "warning", "lastSeconds": "{duration}"})
    ),
    "time_log": steps(("system_status", {}), ("read_log", {"lastSeconds": "{duration}"})),
    "stop_power": steps(("stop_service", {"name": "{service}"}), ("power_off", {})),
    "write_power": steps(("write_file", {"path": "{path}", "text": "{text}"}), ("power_off", {})),
    "find_append": _then(_FOUND, "write_file", text="text", append=True),
    "search_copy": _into(_SEARCHED, "copy_file"),
    "search_move": _into(_SEARCHED, "move_file"),
    "find_list": steps(
        ("find_files", {"name": "{part}", "path": "."}), ("list_directory", {"path": "{folder}"})
    ),
    "list_info": steps(("list_directory", {"path": "{folder}"}), ("file_info", {"path": "{folder}/{file}"})),
    "delete_two_list": (["delete_file", "list_directory"], _delete_two_list),
    "stop_run": steps(("stop_service", {"name": "{service}"}), ("run_program", {"program": "{program}"})),
    "run_flag_stop": steps(
        ("run_program", {"program": "{program}", "arguments": ["{flag}"]}), ("stop_service", {"name": "{service}"})
    ),
    "stop_run_flag": steps(
        ("stop_service", {"name": "{service}"}), ("run_program", {"program": "{program}", "arguments": ["{flag}"]})
    ),
    "read_run": steps(("read_file", {"path": "{path}"}), ("run_program", {"program": "{program}"})),
    "search_read_two": steps(
        ("search_files", {"text": "{phrase}", "path": "{path1}"}), ("read_file", {"path": "{path2}"})
    ),
}

# Scenes whose calls are made side by side.
PARALLEL = {"read_two", "read_three", "status_two", "info_two", "list_two", "make_two", "delete_two", "delete_three"}
PARALLEL |= {"move_two", "copy_two", "restart_two", "stop_two", "write_two", "run_two", "log_two"}
PARALLEL |= {"restart_three", "stop_three", "status_three"}
