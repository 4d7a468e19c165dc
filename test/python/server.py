"""A server of FastMCP: server.py stdio|http|sse, the latter two on PORT."""

import os
import sys

from fastmcp import FastMCP

server = FastMCP("fast")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello, {name}!"


transport = sys.argv[1]
if transport == "stdio":
    server.run(show_banner=False)
else:
    server.run(transport=transport, host="127.0.0.1", port=int(os.environ["PORT"]), show_banner=False)
