"""Second turns that ask for the call of the turn before with one argument other: "same for nginx", "now in logs/".

A pattern is made of a frame of `data/repeats.txt` and of what stands for the argument. It has a scene of `second_turns.py`.
"""

from . import phrasing

FRAMES = phrasing.parse((phrasing.DATA / "repeats.txt").read_text(encoding="utf-8"))[phrasing.ROWS]

_FOR = ["", "", "for ", "with ", "on "]
_IN = ["", "in ", "in ", "inside ", "under ", "below ", "within ", "in the folder ", "in folder ", "in the {x} folder"]
_AT = ["", "", "for ", "with ", "the file "]
_OF = ["", "for ", "of ", "from ", "the log of ", "by "]
_NAMED = ["", "for ", "with ", "called ", "named ", "with {x} in the name", "that have {x} in the name"]
_WORD = ["", "for ", "with ", "about ", "the word ", "mentioning "]
_TO = ["to ", "to ", "as ", "into "]
_BESIDE = [f"{{x}} {where}" for where in ("next to it", "beside it", "in the same folder", "in there", "there", "from the same folder")]

# The tool of the turn before and the scene, with the slot and what may stand before it. Where `{x}` is in that, the slot takes its place.
WHAT = {
    ("read_log", "log_other"): ("{service2}", _OF),
    ("service_status", "status_other"): ("{service2}", _FOR),
    ("restart_service", "restart_other"): ("{service2}", _FOR),
    ("stop_service", "stop_other"): ("{service2}", _FOR),
    ("read_file", "read_other"): ("{path2}", _AT),
    ("file_info", "info_other"): ("{path2}", _AT),
    ("delete_file", "delete_other"): ("{path2}", _AT),
    ("read_file", "read_beside"): ("{file}", _BESIDE),
    ("file_info", "info_beside"): ("{file}", _BESIDE),
    ("delete_file", "delete_beside"): ("{file}", _BESIDE),
    ("list_directory", "list_other"): ("{folder2}", _IN),
    ("find_files", "find_other"): ("{part2}", _NAMED),
    ("find_files", "find_in_folder"): ("{folder}", _IN),
    ("search_files", "search_other"): ("{phrase2}", _WORD),
    ("search_files", "search_in_folder"): ("{folder}", _IN),
    ("search_files", "search_in_file"): ("{path2}", ["in ", "in ", "in the file ", "inside "]),
    ("make_directory", "make_other"): ("{folder2}", ["", "", "for ", "called ", "named "]),
    ("write_file", "write_other"): ("{path2}", ["to ", "in ", "into ", "into the file "]),
    ("copy_file", "copy_other"): ("{path2}", _TO),
    ("run_program", "run_with_path"): ("{path}", ["with ", "on ", "for "]),
    ("run_program", "run_with_word"): ("{word}", ["with ", "with the option ", "with argument "]),
    ("run_program", "run_other"): ("{program2}", ["", "", "with ", "for "]),
    ("read_log", "log_since"): ("{duration}", ["of the last ", "for the last ", "from the past ", "the last ", "only the last "]),
    ("read_log", "log_errors"): ("errors", ["only ", "the ", "just the ", "", "with "]),
    ("read_log", "log_warnings"): ("warnings", ["only ", "the ", "just the ", "", "with ", "also "]),
    ("read_log", "log_newest"): ("the last {max}", ["", "only ", "just ", "with "]),
}


def pattern(random, pair):
    """A sentence for a tool and a scene of `WHAT`."""
    slot, before = WHAT[pair]
    start = random.choice(before)
    said = start.replace("{x}", slot) if "{x}" in start else start + slot
    after, scene = pair
    frame = random.choices(FRAMES, [frame.weight for frame in FRAMES])[0]
    return phrasing.Pattern(frame.text.replace("{it}", said), (("after", after), ("scene", scene)))
