package relay

import (
	"strings"
	"testing"
)

// A server learns with each call that the client can show pages; an older server learns it
// in a session for such clients. A client that cannot show pages does not get the tools
// that only pages use.
func TestAServerHearsOfPagesFromAClientThatShowsThem(t *testing.T) {
	t.Parallel()
	const shows = `"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`
	for _, u := range []bool{true, false} {
		up := newUpstream(t, u)
		url := serve(t, up)
		for _, version := range []string{modern, legacy} {
			for _, can := range []string{"", shows} {
				c := &client{url: url, version: version, can: can}
				c.open(t)
				if _, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{}`); failed != nil {
					t.Fatal(string(failed))
				}
				said := up.last("tools/call")
				if !u {
					said = up.sessionRequest("tools/call")
				}
				if got := strings.Contains(said, "mcp-app"); got != (can != "") {
					t.Errorf("server modern=%t, client %s that shows %q: the server hears %s", u, version, can, said)
				}
				list, failed := c.ask(t, "tools/list", "", "")
				if got := strings.Contains(string(list), pagesTool); failed != nil || got != (can != "") {
					t.Errorf("client %s that shows %q gets the page's tool: %t (%s)", version, can, got, failed)
				}
			}
		}
	}
}
