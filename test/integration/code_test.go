//go:build integration

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramsOverMCP runs the same program in two languages with the Inspector, in both
// eras, against a third-party MCP server.
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
				t.Errorf("%s, %s: the program returns %q", era, language, text)
			}
		}
	}
	if n := len(r.receipts("files:read_text_file")); n != 8 {
		t.Errorf("there are %d receipts of what the programs called, want 8", n)
	}
}

// TestTheExampleOverMCP runs both programs of examples/codemode with the
// Inspector, which starts the example itself: its room has a Go function, an MCP
// server with pages, and a program.
func TestTheExampleOverMCP(t *testing.T) {
	r := newRoom(t, nil)
	example := filepath.Join(repository(t), "examples", "codemode")
	program := filepath.Join(t.TempDir(), "codemode")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, example).CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, out)
	}
	for era := range eras {
		for file, language := range map[string]string{"report.py": "python", "report.ts": "typescript"} {
			source, err := os.ReadFile(filepath.Join(example, file))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			c := r.command(ctx, nodeProgram(t), npmProgram(t, "mcp-inspector"), "--cli", program, "--stdio", "--protocol-era", era,
				"--method", "tools/call", "--tool-name", "execute_code", "--tool-arg", "language="+language,
				"--tool-arg", "code="+string(source), "--tool-arg", `inputs={"least": 2}`, "--format", "json", "-q")
			c.Dir = example
			c.Env = append(c.Env, "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("%s, %s: %v\n%s", era, file, err, out)
			}
			result := decode[struct{ Result object }](t, string(out)).Result
			const want = "value:\n" + `[{"file":"todo.txt","words":8,"blob":"cc2a888"},{"file":"shopping.txt","words":4,"blob":"8d958c4"}]`
			if text := contentText(result); text != want {
				t.Errorf("%s, %s: the program returns %q", era, file, text)
			}
		}
	}
}
