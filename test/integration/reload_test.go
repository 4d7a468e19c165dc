//go:build integration

package integration

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

func TestChangedConfigAddsToolsAndKeepsCalls(t *testing.T) {
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			r := newRoom(t, nil)
			r.configure(object{"everything": r.everythingSource()})
			s := r.serveListed()
			changed := make(chan struct{}, 100)
			session := connect(t, s, version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
				changed <- struct{}{}
			}})
			if listsTool(t, session, "memo__read_graph") {
				t.Fatal("the new tools are there before their source")
			}
			ended := r.startLongCall(s, 40)
			pid := r.upstreamPID()
			r.configure(object{"everything": r.everythingSource(), "memo": npmServer(t, "mcp-server-memory")})
			for end := time.After(waitTimeout); !listsTool(t, session, "memo__read_graph"); {
				select {
				case <-changed:
				case <-end:
					t.Fatal("the client got no notification of the new tools")
				}
			}
			if result := <-ended; result.Status != toolroom.StatusOK {
				t.Errorf("the call that ran ended with %s: %+v", result.Status, result.Error)
			}
			if now := r.upstreamPID(); now != pid {
				t.Errorf("the source that did not change was started again: process %d, was %d", now, pid)
			}
		})
	}
}

func TestABrokenConfigLeavesThePreviousOneInForce(t *testing.T) {
	r := newRoom(t, nil)
	source, _ := echoService(t)
	r.configure(object{"service": source})
	a := api{r, r.serveListed().url + "/api/v1"}
	r.configure(object{}, object{"sorces": object{}})
	if out := r.runProgram(binary(t), "config", "check"); out.code != toolroom.ExitError {
		t.Errorf("config check ended with %d: %s", out.code, out.stderr)
	}
	a.want("200", "/call", "-d", `{"tool": "service:echo", "arguments": {"n": 1}}`)
}

// listsTool reports whether the client's list has the tool.
func listsTool(t *testing.T, session *mcp.ClientSession, name string) bool {
	t.Helper()
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name == name {
			return true
		}
	}
	return false
}
