package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
)

func TestATunnelIsCheckedAndThenGoesThroughTheProxy(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodConnect || r.Host != "93.184.216.34:443" || r.Header.Get("Proxy-Authorization") != "Basic dTpw" {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		io.Copy(conn, io.LimitReader(conn, 4))
	}))
	t.Cleanup(proxy.Close)
	g, err := egress.New(egress.Policy{Proxy: strings.Replace(proxy.URL, "http://", "http://u:p@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := g.Tunnel(t.Context(), "93.184.216.34:443")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "ping")
	if got, _ := io.ReadAll(conn); string(got) != "ping" {
		t.Errorf("the peer sent %q", got)
	}
	for _, address := range []string{"169.254.169.254:80", "10.0.0.1:443", "0x7f.1:80", "93.184.216.34:0", "user@93.184.216.34:443"} {
		if _, err := g.Tunnel(t.Context(), address); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := g.Tunnel(t.Context(), "93.184.216.34:444"); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Errorf("a refusal of the proxy: %v", err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the proxy got %d requests", n)
	}
}

// A name can carry data, so a name that may not be reached must not be looked up.
func TestClosedEgressLooksUpOnlyNamesThatAnEntryMayAllow(t *testing.T) {
	t.Parallel()
	var lookups atomic.Int64
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups.Add(1)
		return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
	}}
	g, err := egress.New(egress.Policy{Closed: true, Allow: []string{"*.corp.example", "api.example:443"}, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"secret.attacker.example:443", "api.example:80", "corp.example:443"} {
		if _, err := g.Tunnel(t.Context(), address); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%s: %v", address, err)
		}
	}
	if n := lookups.Load(); n != 0 {
		t.Errorf("%d lookups of names that no entry allows", n)
	}
	if _, err := g.Tunnel(t.Context(), "a.corp.example:443"); err == nil || lookups.Load() == 0 {
		t.Errorf("a name that an entry allows was not looked up: %v", err)
	}
}
