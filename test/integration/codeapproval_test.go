//go:build integration

package integration

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// catchingPrograms are programs that make a call that needs approval, and print the code of its error.
var catchingPrograms = map[string]struct{ language, code string }{
	"js":        {"javascript", `try { await tools.filesystem.TOOL(inputs); console.log("done") } catch (e) { console.log("caught " + e.code) }`},
	"py":        {"python", "try:\n    tools.filesystem.TOOL(**inputs)\n    print('done')\nexcept Exception as e:\n    print('caught', e.code)\n"},
	"py-native": {"python", "try:\n    tools.filesystem.TOOL(**inputs)\n    print('done')\nexcept Exception as e:\n    print('caught', e.code)\n"},
}

func TestAProgramCatchesThatItsCallWasDeclinedExpiredOrCancelled(t *testing.T) {
	for engine, program := range catchingPrograms {
		t.Run(engine, func(t *testing.T) {
			r := newRoom(t, nil)
			r.configure(object{"filesystem": r.filesystem()}, object{
				"tools":     object{"confirm": []string{"filesystem:write_file", "filesystem:create_directory"}},
				"approvals": object{"rules": []object{{"match": "filesystem:create_directory", "ttl": "1s"}}},
			})
			r.toolroom(0, "sources", "test", "filesystem") // a program has the tools that are known when it starts
			inputs := object{"path": filepath.Join(r.files, "new"), "content": "written"}
			begin := func(tool string, inputs object) <-chan output {
				ended := make(chan output, 1)
				code := strings.ReplaceAll(program.code, "TOOL", tool)
				go func() {
					defer close(ended)
					ended <- r.runProgram(binary(t), "exec", "--engine", engine, "-l", program.language, "--input", "inputs="+encode(t, inputs), code)
				}()
				return ended
			}
			wants := func(how string, out output) {
				t.Helper()
				if out.code != 0 || !strings.Contains(out.stdout, "caught "+how+"\n") {
					t.Errorf("the program ended with %d and %q, want %q\n%s", out.code, out.stdout, how, out.stderr)
				}
			}
			ended := begin("write_file", inputs)
			r.toolroom(0, "approve", r.waitForApproval().ID, "--decline")
			wants("approval_declined", <-ended)

			ended = begin("write_file", inputs)
			question := r.waitForApproval().ID
			r.runAndInterrupt(question, "call", "filesystem:write_file", encode(t, inputs))
			wants("cancelled", <-ended)

			wants("approval_expired", <-begin("create_directory", object{"path": inputs["path"]}))
			if _, err := os.Stat(filepath.Join(r.files, "new")); err == nil {
				t.Error("a call ran without approval")
			}
		})
	}
}

// runAndInterrupt runs a command that waits for an approval, and interrupts it.
func (r *room) runAndInterrupt(question string, args ...string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), waitTimeout)
	defer cancel()
	c := r.command(ctx, binary(r.t), args...)
	stderr, err := c.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if strings.Contains(lines.Text(), question) {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code == toolroom.ExitOK || ctx.Err() != nil {
		r.t.Fatalf("the call that was given up ended with %d (%v)", code, ctx.Err())
	}
}
