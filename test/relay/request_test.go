package relay

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestWhatAClientSendsReachesTheServerByteForByte tests servers of revision 2026-07-28 and of
// an older one, each with clients of both: unknown members of a request, and known ones in
// the client's own spelling.
func TestWhatAClientSendsReachesTheServerByteForByte(t *testing.T) {
	t.Parallel()
	const typed = `{"who":"\u003c<é&","a":"1"}`
	for _, u := range []bool{true, false} {
		up := newUpstream(t, u)
		url := serve(t, up)
		for _, version := range []string{modern, legacy} {
			t.Run(fmt.Sprintf("server modern=%t, client %s", u, version), func(t *testing.T) {
				c := connect(t, url, version)
				for _, sent := range []struct{ method, name, params, want string }{
					{"tools/call", "odd", `"name":"odd","arguments":` + typed, `"name":"odd","arguments":` + typed},
					{"tools/call", "odd", `"uri":1.50,"name":"odd"`, `"arguments":{},"uri":1.50`},
					{"tools/call", "up__odd", `"name":"up__odd"`, `"name":"odd"`},
					{"resources/read", "odd:1", `"uri":"odd:1"`, `"uri":"odd:1"`},
					{"prompts/get", "ask", `"name":"ask","arguments":` + typed, `"name":"ask","arguments":` + typed},
					{"prompts/get", "up__ask", `"name":"up__ask"`, `"name":"ask"`},
					{
						"completion/complete", "", `"ref":{"odd":1.50,"name":"up__ask","type":"ref/prompt"},"argument":{"name":"who","value":"\u003c","odd":[1.50]},"context":{"odd":1,"arguments":` + typed + `}`,
						`"ref":{"odd":1.50,"name":"ask","type":"ref/prompt"},"argument":{"name":"who","value":"\u003c","odd":[1.50]},"context":{"odd":1,"arguments":` + typed + `}`,
					},
				} {
					if _, failed := c.ask(t, sent.method, sent.name, sent.params+","+extraMembers); failed != nil {
						t.Errorf("%s was refused: %s", sent.method, failed)
						continue
					}
					came := up.last(sent.method)
					for _, want := range []string{sent.want, metaMembers, extraMembers} {
						if !strings.Contains(came, want) {
							t.Errorf("%s came without\n%s\nas\n%s", sent.method, want, came)
						}
					}
				}
				// A server that ignores the case of names could find another tool or other
				// arguments than policy did, so such a message is refused.
				for _, smuggled := range []string{`"Arguments":{"x":1}`, `"NAME":"fails"`, `"_META":{}`, `"argument\u017f":{"x":2}`} {
					if _, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{},`+smuggled+","+extraMembers); failed == nil {
						t.Errorf("%s was accepted", smuggled)
					}
				}
				if _, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{},"task":{"ttl":1},`+extraMembers); failed != nil {
					t.Fatalf("refused: %s", failed)
				}
				if came := up.last("tools/call"); strings.Contains(came, `"task"`) {
					t.Errorf("task was forwarded: %s", came)
				}
			})
		}
	}
}

// The result of a repeated key comes from the store.
func TestTheResultOfARepeatedKeyIsTheFirstOneByteForByte(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, true)
	c := connect(t, serve(t, up), modern)
	c.also = `,"toolroom/idempotencyKey":"k"`
	for i := range 2 {
		result, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{"i":0}`)
		if failed != nil || withoutAdditions(t, result) != oddResult {
			t.Errorf("answer %d is %s%s", i, result, failed)
		}
	}
	if n := up.count("tools/call"); n != 1 {
		t.Errorf("the server was called %d times", n)
	}
}

// A task's call is made from the stored request.
func TestWhatAClientSendsSurvivesTheStoreOfATask(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, true)
	home := homeDir(t)
	text := fmt.Sprintf("sources: {up: {names: plain, tasks: optional, mcp: {url: %q}}}\n", up.URL)
	if err := os.WriteFile(home+"/toolroom.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := serveHome(t, home)
	c := &client{url: url, version: modern, can: taskCapabilities}
	const arguments = `{"z":9007199254740993,"a":"\u003c<é&"}`
	result, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":`+arguments+","+extraMembers)
	id := taskOf(t, result, failed)
	c.pollUntil(t, id, "completed")
	came := up.last("tools/call")
	for _, want := range []string{`"arguments":` + arguments, metaMembers, extraMembers} {
		if !strings.Contains(came, want) {
			t.Errorf("the call came without\n%s\nas\n%s", want, came)
		}
	}
}
