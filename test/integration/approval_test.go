//go:build integration

package integration

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// confirmWrites is config that requires approval before the filesystem server writes.
var confirmWrites = object{"tools": object{"confirm": []string{"filesystem:write_file"}}}

func TestCallOverHTTPWaitsForAnAnswerOfAnotherProcess(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem()}, confirmWrites)
	s := r.serveListed()

	answered := r.startWrite(s, "approved.txt")
	r.toolroom(0, "approve", r.waitForApproval().ID)
	if result := <-answered; result.Status != toolroom.StatusOK {
		t.Errorf("the approved call ended with %s: %+v", result.Status, result.Error)
	}
	r.wantFile("approved.txt", "written")

	answered = r.startWrite(s, "declined.txt")
	r.toolroom(0, "approve", r.waitForApproval().ID, "--decline", "--comment", "not today")
	if result := <-answered; result.Error == nil || result.Error.Code != toolroom.CodeApprovalDeclined {
		t.Errorf("the declined call ended with %s: %+v", result.Status, result.Error)
	}
	r.wantFile("declined.txt", "")
}

func TestDeclinedCallOfTheCommandLineEndsWithDenied(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem()}, confirmWrites)
	ended := make(chan output, 1)
	go func() {
		defer close(ended)
		ended <- r.runProgram(binary(t), "call", "filesystem:write_file", "path="+filepath.Join(r.files, "new.txt"), "content=written")
	}()
	r.toolroom(0, "approve", r.waitForApproval().ID, "--decline")
	if out := <-ended; out.code != toolroom.ExitDenied {
		t.Errorf("the declined call ended with %d, want %d: %s", out.code, toolroom.ExitDenied, out.stderr)
	}
	r.wantFile("new.txt", "")
}

func TestApprovalSurvivesAKilledServerAndCountsOnce(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem()}, confirmWrites)
	s := r.serveListed()
	answered := r.startWrite(s, "new.txt")
	id := r.waitForApproval().ID
	s.stop(t, syscall.SIGKILL)
	<-answered

	s = r.serveListed()
	if again := r.waitForApproval().ID; again != id {
		t.Fatalf("after the restart %s is pending, want %s", again, id)
	}
	r.toolroom(0, "approve", id)
	r.wantFile("new.txt", "")
	if result := <-r.startWrite(s, "new.txt"); result.Status != toolroom.StatusOK {
		t.Errorf("the repeated call ended with %s: %+v", result.Status, result.Error)
	}
	r.wantFile("new.txt", "written")

	answered = r.startWrite(s, "new.txt")
	if next := r.waitForApproval().ID; next == id {
		t.Error("the approval was good for two calls")
	} else {
		r.toolroom(0, "approve", next, "--decline")
	}
	<-answered
}

func TestMCPClientIsAskedForApproval(t *testing.T) {
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			r := newRoom(t, nil)
			r.configure(object{"filesystem": r.filesystem()}, confirmWrites)
			s := r.serveListed()
			for _, c := range []struct {
				name    string
				answer  mcp.ElicitResult
				isError bool
				written string
			}{
				{"accept.txt", mcp.ElicitResult{Action: "accept", Content: object{"approve": true}}, false, "written"},
				{"not-approved.txt", mcp.ElicitResult{Action: "accept", Content: object{"approve": false}}, true, ""},
				{"decline.txt", mcp.ElicitResult{Action: "decline"}, true, ""},
			} {
				asked := 0
				session := connect(t, s, version, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked++
					return &c.answer, nil
				}})
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{
					Name: "filesystem__write_file", Arguments: object{"path": filepath.Join(r.files, c.name), "content": "written"},
				})
				if err != nil || result.IsError != c.isError || asked != 1 {
					t.Errorf("%s: asked %d times, %v, %s", c.name, asked, err, encode(t, result))
				}
				r.wantFile(c.name, c.written)
			}
		})
	}
}

// startWrite calls write_file over HTTP in the background. The result is empty if the server
// ends first.
func (r *room) startWrite(s *server, name string) <-chan toolroom.Result {
	body := encode(r.t, object{"tool": "filesystem:write_file", "arguments": object{"path": filepath.Join(r.files, name), "content": "written"}})
	answered := make(chan toolroom.Result, 1)
	go func() {
		defer close(answered)
		var result toolroom.Result
		if out := r.runProgram("curl", "-s", s.url+"/api/v1/call", "-d", body); out.code == 0 {
			result = decode[toolroom.Result](r.t, out.stdout)
		}
		answered <- result
	}()
	return answered
}

// waitForApproval waits for the one pending approval.
func (r *room) waitForApproval() toolroom.Approval {
	r.t.Helper()
	var list []toolroom.Approval
	eventually(r.t, "a call waits for approval", func() bool {
		list = decode[[]toolroom.Approval](r.t, r.toolroom(0, "approve", "--json").stdout)
		return len(list) > 0
	})
	if len(list) != 1 {
		r.t.Fatalf("%d approvals are pending, want 1", len(list))
	}
	return list[0]
}

// wantFile checks a file of the room. An empty text means that it must not exist.
func (r *room) wantFile(name, text string) {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.files, name))
	if text == "" && err == nil || string(data) != text {
		r.t.Errorf("%s has %q (%v), want %q", name, data, err, text)
	}
}
