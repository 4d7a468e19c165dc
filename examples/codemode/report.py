# Pages through the notes of an MCP server, reads them all at once, counts their words
# with a Go function, and joins that with git's status of each file.
import asyncio

entries, cursor = [], ""
while True:
    page = await tools.notes.list(limit=2, cursor=cursor)
    entries += page["entries"]
    cursor = page.get("next")
    if not cursor:
        break
names = [e["name"] for e in entries if not e.get("directory")]
texts = await asyncio.gather(*[tools.notes.read(path=name) for name in names])


async def row(name, text):
    words, blob = await asyncio.gather(
        tools.text.words(text=text),
        cli.git.git("hash-object", f"notes/{name}").text(),
    )
    return {"file": name, "words": words, "blob": blob.strip()[:7]}


rows = await asyncio.gather(*[row(n, t) for n, t in zip(names, texts)])
return sorted((r for r in rows if r["words"] >= least), key=lambda r: -r["words"])
