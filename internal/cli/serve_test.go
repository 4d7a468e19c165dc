package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/config"
)

func TestAServerThatListensEverywhereSaysWhoNeedsAToken(t *testing.T) {
	t.Parallel()
	everywhere := &net.TCPAddr{IP: net.IPv6unspecified, Port: 7070}
	never := config.Server{Auth: config.Auth{Required: "never"}}
	for _, c := range []struct {
		at     net.Addr
		server config.Server
		want   string
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070}, config.Server{}, "Toolroom is ready at http://127.0.0.1:7070 (MCP: http://127.0.0.1:7070/mcp)"},
		{everywhere, config.Server{}, "http://localhost:7070/mcp)\nIt listens on all addresses of this machine. Clients on other machines need a token: toolroom token create"},
		{everywhere, never, "may call every tool: server.auth.required is never"},
		{everywhere, config.Server{TLS: config.TLS{Cert: "c"}}, "Toolroom is ready at https://localhost:7070"},
	} {
		if got := readyLine(c.at, c.server); !strings.Contains(got, c.want) || strings.Contains(got, "[::]") {
			t.Errorf("%s: %s", c.at, got)
		}
	}
}
