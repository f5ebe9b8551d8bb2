"""An editor without a window: the client of the package agent-client-protocol, as its authors publish it.

    client.py STEPS COMMAND...

starts COMMAND as an agent and does the steps of the file STEPS, a JSON list:

    {"do": "new"}                               begins a session
    {"do": "list", "keep": NAME}                lists sessions, whose ids are the step's text; keeps the first
    {"do": "load", "session": ID or NAME}       loads one; its updates are those of the step
    {"do": "close"}                             closes the session
    {"do": "prompt", "text": TEXT}              sends a prompt and waits for its end; with
        "permit": KIND                              answers questions with the option of that kind
        "cancel": "question" or "start"             cancels when the question comes, or after the prompt was sent

With "error": TEXT the step has to fail with that in its message. "stop", "said" (in the text of the agent), "calls" (titles
of calls, with their last status), "kinds" (of calls), "results" (texts, each in a result of a call), "diff" (new text of a
question) and "within" (milliseconds from the cancel to the end) are what has to be seen.
"""

import asyncio
import json
import os
import sys
import time

import acp
from acp import schema


class Editor(acp.Client):
    """Keeps what the agent sends, and answers as the step says."""

    def __init__(self):
        self.step = {}
        self.session = ""
        self.agent = None
        self.cancelled = None
        self.kept = {}
        self.begin({})

    def begin(self, step):
        self.step = step
        self.said = ""
        self.calls = {}
        self.kinds = []
        self.diffs = []
        self.results = []
        self.updates = []

    def on_connect(self, conn):
        self.agent = conn

    async def session_update(self, session_id, update, **kwargs):
        kind = update.session_update
        self.updates.append(kind)
        if kind == "agent_message_chunk":
            self.said += update.content.text
        elif kind == "tool_call":
            self.calls[update.tool_call_id] = [update.title, update.status]
            self.kinds.append(update.kind)
        elif kind == "tool_call_update" and update.status:
            self.calls[update.tool_call_id][1] = update.status
            for content in update.content or []:
                if content.type == "content":
                    self.results.append(content.content.text)

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        for content in tool_call.content or []:
            if content.type == "diff":
                self.diffs.append(content.new_text)
        if self.step.get("cancel") == "question":
            self.cancelled = time.monotonic()
            await self.agent.cancel(session_id=session_id)
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        wanted = self.step["permit"]
        option = next(option for option in options if option.kind == wanted)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def do(self):
        """Does the step; what it saw, as the step would have it."""
        step = self.step
        if step["do"] == "new":
            self.session = (await self.agent.new_session(cwd="/", mcp_servers=[])).session_id
            return {}
        if step["do"] == "load":
            self.session = self.kept.get(step["session"], step["session"])
            await self.agent.load_session(cwd="/", session_id=self.session, mcp_servers=[])
            return {}
        if step["do"] == "list":
            found = await self.agent.list_sessions()
            ids = [session.session_id for session in found.sessions]
            self.said = " ".join(ids)
            if "keep" in step:
                self.kept[step["keep"]] = ids[0]
            return {}
        if step["do"] == "close":
            await self.agent.close_session(session_id=self.session)
            return {}
        prompt = asyncio.ensure_future(
            self.agent.prompt(session_id=self.session, prompt=[acp.text_block(step["text"])])
        )
        if step.get("cancel") == "start":
            await asyncio.sleep(step.get("after", 0.1))
            self.cancelled = time.monotonic()
            await self.agent.cancel(session_id=self.session)
        response = await prompt
        saw = {"stop": response.stop_reason}
        if self.cancelled is not None:
            saw["took"] = round((time.monotonic() - self.cancelled) * 1000)
            self.cancelled = None
        return saw


def check(editor, step, saw):
    """What differs from what the step says."""
    wrong = []
    calls = [f"{title}: {status}" for title, status in editor.calls.values()]
    for name, found in [("stop", saw.get("stop")), ("calls", calls), ("kinds", editor.kinds), ("diff", editor.diffs)]:
        if name in step and step[name] != found:
            wrong.append(f"{name} is {found!r} and not {step[name]!r}")
    if step.get("said", "") not in editor.said:
        wrong.append(f"{step['said']!r} is not in what was said, {editor.said!r}")
    for text in step.get("results", []):
        if not any(text in result for result in editor.results):
            wrong.append(f"{text!r} is in no result of a call, {editor.results!r}")
    if "within" in step and saw["took"] > step["within"]:
        wrong.append(f"the cancel took {saw['took']} ms")
    return wrong


async def main(steps, command):
    editor = Editor()
    environment = {name: value for name, value in os.environ.items() if name.startswith("CAPOS_")}
    async with acp.spawn_agent_process(
        editor, *command, env=environment, transport_kwargs={"stderr": None}
    ) as (connection, process):
        editor.agent = connection
        introduced = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        assert introduced.protocol_version == acp.PROTOCOL_VERSION, introduced
        for number, step in enumerate(steps, 1):
            editor.begin(step)
            try:
                saw = await asyncio.wait_for(editor.do(), step.get("limit", 60))
                wrong = check(editor, step, saw)
                if "error" in step:
                    wrong.append("it did not fail")
            except acp.RequestError as error:
                saw = {"error": str(error)}
                wrong = [] if "error" in step and step["error"] in str(error) else [f"it failed: {error}"]
            print(json.dumps({"step": number, "do": step["do"], **saw, "said": editor.said}), flush=True)
            if wrong:
                sys.exit(f"step {number}, {json.dumps(step)}: {'; '.join(wrong)}")
    # The agent ends with its editor.
    assert process.returncode == 0, f"the agent ended with {process.returncode}"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    asyncio.run(main(plan, sys.argv[2:]))
