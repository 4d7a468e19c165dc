package cli

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/config"
)

func TestAServerThatListensEverywhereSaysWhoNeedsAToken(t *testing.T) {
	t.Parallel()
	for listen, everywhere := range map[string]bool{"0.0.0.0:7070": true, "[::]:7070": true, ":7070": true, "127.0.0.1:7070": false, "localhost:0": false, "10.0.0.1:7": false} {
		line := openAccessNotice(listen, config.Auth{Required: "auto"})
		if everywhere != strings.Contains(line, "need a token: toolroom token create") || !everywhere && line != "" {
			t.Errorf("%s: %q", listen, line)
		}
	}
	if line := openAccessNotice(":7070", config.Auth{Required: "never"}); !strings.Contains(line, "may call every tool") {
		t.Errorf("without tokens: %q", line)
	}
}

func TestAServerThatOthersReachOverPlainHTTPSaysSo(t *testing.T) {
	t.Parallel()
	tls := config.Server{TLS: config.TLS{Cert: "c.pem", Key: "k.pem"}}
	for _, c := range []struct {
		listen string
		server config.Server
		warns  bool
	}{
		{"127.0.0.1:7070", config.Server{}, false},
		{"[::1]:7070", config.Server{}, false},
		{"localhost:0", config.Server{}, false},
		{":7070", config.Server{}, true},
		{"10.0.0.1:7070", config.Server{}, true},
		{"tools.example.com:80", config.Server{}, true},
		{":7070", config.Server{URL: "http://tools.example.com"}, true},
		{":7070", config.Server{URL: "https://tools.example.com"}, false},
		{":7070", tls, false},
	} {
		if line := plainHTTPWarning(c.listen, c.server); strings.Contains(line, "not encrypted") != c.warns {
			t.Errorf("%s, %+v: %q", c.listen, c.server, line)
		}
	}
}
