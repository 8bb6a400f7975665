"""docs/how-to/let-an-assistant-ask.md: its configuration starts a server with the tools of its
table."""

import asyncio
import json
import re
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from mcp import Client as Assistant
from mcp import StdioServerParameters, stdio_client

from tests.databases import ROOT

PAGE = (ROOT / "docs" / "how-to/let-an-assistant-ask.md").read_text()


def test_its_configuration_gives_the_tools_of_its_table(logs: str, tmp_path: Path) -> None:
    """With schemas of their arguments, and the hint that they only read."""
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    [(name, configured)] = json.loads(block)["mcpServers"].items()
    [variable] = configured["env"]
    assert (name, configured["command"]) == ("eventsched", "eventsched")
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "eventsched", *configured["args"]],
        env={variable: logs}, cwd=ROOT,
    )  # fmt: skip

    async def ask() -> None:
        with (tmp_path / "errors").open("w") as errors:
            async with Assistant(stdio_client(server, errlog=errors)) as assistant:
                listed = (await assistant.list_tools()).tools
                assert "cite" in (assistant.instructions or "")
        assert [tool.name for tool in listed] == re.findall(r"^\| `(\w+)`", PAGE, re.MULTILINE)
        for tool in listed:
            Draft202012Validator.check_schema(tool.input_schema)
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
        [why_not] = [tool for tool in listed if tool.name == "why_not"]
        assert why_not.input_schema["required"] == ["namespace", "name", "node"]

    asyncio.run(asyncio.wait_for(ask(), 120))
