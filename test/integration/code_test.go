//go:build integration

package integration

import (
	"strings"
	"testing"
)

// TestProgramsOverMCP runs the same program in two languages with the
// Inspector, in both eras, against an MCP server that others wrote.
func TestProgramsOverMCP(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"files": r.filesystem()}, object{"expose": object{"mode": "code"}})
	r.write("a.txt", "one two three")
	r.write("b.txt", "four")
	s := r.serveListed()
	programs := map[string]string{
		"python": `import asyncio
names = [l.split(" ")[1] for l in (await tools.files.list_directory(path=folder))["content"].splitlines()]
texts = await asyncio.gather(*[tools.files.read_text_file(path=f"{folder}/{n}") for n in names if n.endswith(".txt")])
sum(len(t["content"].split()) for t in texts)`,
		"typescript": `const listed: string = (await tools.files.list_directory({path: folder})).content;
const names = listed.split("\n").map((l: string) => l.split(" ")[1]).filter((n) => n.endsWith(".txt"));
const texts = await Promise.all(names.map((n) => tools.files.read_text_file({path: folder + "/" + n})));
return texts.reduce((n, t) => n + t.content.split(/\s+/).length, 0);`,
	}
	for era := range eras {
		names := toolNames(r.inspect(s, era, "--method", "tools/list"))
		if got := strings.Join(names, " "); got != "describe_tools execute_code read_result search_tools" {
			t.Errorf("%s: the mode code shows %s", era, got)
		}
		for language, program := range programs {
			result := r.inspect(s, era, "--method", "tools/call", "--tool-name", "execute_code",
				"--tool-arg", "language="+language, "--tool-arg", "code="+program, "--tool-arg", `inputs={"folder": "`+r.files+`"}`)
			if text := contentText(result); text != "value:\n4" {
				t.Errorf("%s, %s: the program gives %q", era, language, text)
			}
		}
	}
	if n := len(r.receipts("files:read_text_file")); n != 8 {
		t.Errorf("there are %d receipts of what the programs called, want 8", n)
	}
}
