package relay

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestWhatAClientSendsReachesTheServerByteForByte crosses both eras of the server
// with both of the client: what a request has that nobody knows, and what it has
// that is known, in the client's own spelling.
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
					if _, failed := c.ask(t, sent.method, sent.name, sent.params+","+more); failed != nil {
						t.Errorf("%s was refused: %s", sent.method, failed)
						continue
					}
					came := up.last(sent.method)
					for _, want := range []string{sent.want, said, more} {
						if !strings.Contains(came, want) {
							t.Errorf("%s came without\n%s\nas\n%s", sent.method, want, came)
						}
					}
				}
				// A server that reads names in any case must not find other arguments
				// than those that policy has seen, nor another tool.
				const smuggled = `"Arguments":{"x":1},"NAME":"fails","_META":{},"argument\u017f":{"x":2},"task":{"ttl":1}`
				if _, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{},`+smuggled+","+more); failed != nil {
					t.Fatalf("refused: %s", failed)
				}
				came := up.last("tools/call")
				for _, name := range []string{"Arguments", "NAME", "_META", "017f", "ſ", `"task"`} {
					if strings.Contains(came, name) {
						t.Errorf("%s was smuggled in: %s", name, came)
					}
				}
			})
		}
	}
}

// TestTheAnswerToARepeatedKeyIsTheFirstOneByteForByte: it comes from the store.
func TestTheAnswerToARepeatedKeyIsTheFirstOneByteForByte(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, true)
	c := connect(t, serve(t, up), modern)
	c.also = `,"toolroom/idempotencyKey":"k"`
	for i := range 2 {
		result, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{"i":0}`)
		if failed != nil || sent(t, result) != oddResult {
			t.Errorf("answer %d is %s%s", i, result, failed)
		}
	}
	if n := up.times("tools/call"); n != 1 {
		t.Errorf("the server was called %d times", n)
	}
}

// TestWhatAClientSendsSurvivesTheStoreOfATask: a task's call is made from what is
// stored of it.
func TestWhatAClientSendsSurvivesTheStoreOfATask(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, true)
	home := t.TempDir()
	text := fmt.Sprintf("sources: {up: {names: plain, tasks: optional, mcp: {url: %q}}}\n", up.URL)
	if err := os.WriteFile(home+"/toolroom.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := serveHome(t, home)
	c := &client{url: url, version: modern, can: knowsTasks}
	const arguments = `{"z":9007199254740993,"a":"\u003c<é&"}`
	result, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":`+arguments+","+more)
	id := taskOf(t, result, failed)
	c.until(t, id, "completed")
	came := up.last("tools/call")
	for _, want := range []string{`"arguments":` + arguments, said, more} {
		if !strings.Contains(came, want) {
			t.Errorf("the call came without\n%s\nas\n%s", want, came)
		}
	}
}
