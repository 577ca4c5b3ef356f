"""The MCP library of another language lists the server's tools and calls each of them.

argv: the binary, the wiki's root, and how often each tool is called. The library itself checks every structured answer
against the tool's output schema. Prints one JSON document of what it saw.
"""

import asyncio
import json
import sys

import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS = [
    ("search", {"query": "outbox 저장소", "limit": 5}),
    ("read_page", {"page": "Alpha"}),
    ("backlinks", {"page": "wiki-output/a.md"}),
    ("neighbors", {"page": "a", "depth": 2, "direction": "both"}),
    ("recent_changes", {"limit": 5}),
    ("status", {}),
]


async def main(binary, root, rounds):
    server = StdioServerParameters(command=binary, args=["-C", root, "mcp"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = (await session.initialize()).model_dump(by_alias=True, mode="json")
        listed = (await session.list_tools()).model_dump(by_alias=True, mode="json")
        tools = {tool["name"]: tool for tool in listed["tools"]}
        answers = {}
        for _ in range(rounds):
            for name, arguments in CALLS:
                jsonschema.validate(arguments, tools[name]["inputSchema"])
                answer = await session.call_tool(name, arguments)
                answer = answer.model_dump(by_alias=True, mode="json")
                if not answer["isError"]:
                    jsonschema.validate(answer["structuredContent"], tools[name]["outputSchema"])
                answers[name] = answer
        several = await asyncio.gather(*(session.call_tool(name, arguments) for name, arguments in CALLS * 3))
        wrong = await session.call_tool("read_page", {"page": "../../etc/passwd"})
        print(
            json.dumps(
                {
                    "server": hello["serverInfo"]["name"],
                    "instructions": hello["instructions"],
                    "tools": tools,
                    "answers": answers,
                    "at_once": [answer.model_dump(by_alias=True)["isError"] for answer in several],
                    "wrong": wrong.model_dump(by_alias=True, mode="json"),
                }
            )
        )


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
