package program

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// TestChecksTakeTimeInProportionToTheProgram: they run in the server, before any limit of the
// program counts. Each piece was chosen to make one of them look again and again.
func TestChecksTakeTimeInProportionToTheProgram(t *testing.T) {
	t.Parallel()
	tools := []bridge.Tool{{ID: "a:b", Path: []string{"a", "b"}}}
	pieces := []string{
		`f""`, `f"{x}"`, `rf"{x}"`, "try:\n pass\nexcept E as e:\n e.code\n", "for ", "lambda ", "import ", "as x ", "class ", "tools.a.b(", "tools.a.b(x=", "(", `tools["a"]`,
		`x["ok"] cli `, "\\\n", "a=", "@", ";", "1", `'\ud800`, `call_tool("a:b",{`, `f"{a:`, "f\"{a:" + strings.Repeat("{a:", 1000), `f'''{`, "await tools.a.b()\n", "{'a':", "def f(a,", "x:=", "global x\n",
	}
	programs := map[string]string{}
	for _, piece := range pieces {
		programs[piece] = "await 1\n" + strings.Repeat(piece, (400<<10)/len(piece))
	}
	var names strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&names, "x%d = tools.a.b()\n", i)
	}
	programs["names"] = "await 1\n" + names.String()
	programs["formats"] = `f"` + strings.Repeat("{a:", 1<<20)
	var nested strings.Builder
	for indent := range 600 {
		nested.WriteString(strings.Repeat(" ", indent) + "except E as e:\n")
	}
	programs["handlers within handlers"] = nested.String() + strings.Repeat(" ", 600) + strings.Repeat("e.code;", 30_000)
	for piece, text := range programs {
		began := time.Now()
		_, _ = Prepare(bridge.Program{Language: "python", Source: text, Tools: tools}, nil)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%.40q, repeated to %d bytes, takes %v", piece, len(text), took)
		}
	}
}
