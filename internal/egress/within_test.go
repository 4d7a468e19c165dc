package egress_test

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/egress/dnstest"
)

func TestWithinPermitsOnlyWhatBothTheGuardAndTheListPermit(t *testing.T) {
	t.Parallel()
	s, _ := service(t, nil)
	port := portOf(t, s)
	resolver, names := dnstest.Serve(t, map[string][]string{
		"a.example": {"127.0.0.1"}, "b.example": {"127.0.0.1"}, "sub.c.example": {"127.0.0.1"}, "meta.example": {"169.254.169.254"}, "private.example": {"10.1.2.3"},
	})
	g := guard(t, egress.Policy{Allow: []string{"loopback"}, Deny: []string{"b.example"}, Resolver: resolver})
	for _, tt := range []struct {
		list    string
		address string
		reached bool
	}{
		{"a.example", "a.example:" + port, true},
		{"a.example:" + port, "a.example:" + port, true},
		{"A.EXAMPLE", "a.example:" + port, true},
		{"*.c.example", "sub.c.example:" + port, true},
		{"127.0.0.0/8", "127.0.0.1:" + port, true},
		{"127.0.0.0/8", "a.example:" + port, true},
		{"loopback", "a.example:" + port, true},
		{"a.example:1", "a.example:" + port, false},
		{"a.example", "sub.c.example:" + port, false},
		{"a.example", "127.0.0.1:" + port, false},
		{"10.0.0.0/8", "a.example:" + port, false},
		// A list cannot allow what the guard refuses.
		{"b.example", "b.example:" + port, false},
		{"meta.example", "meta.example:80", false},
		{"metadata", "169.254.169.254:80", false},
		{"private.example", "private.example:80", false},
		{"10.1.2.3", "10.1.2.3:80", false},
	} {
		within, err := g.Within([]string{"unused.example", tt.list})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := within.Tunnel(t.Context(), tt.address)
		if err == nil {
			conn.Close()
		}
		if got := toolroom.CodeOf(err); (err == nil) != tt.reached || err != nil && got != toolroom.CodeDenied {
			t.Errorf("with %s to %s: %v", tt.list, tt.address, err)
		}
	}
	before := names.Lookups("")
	within, err := g.Within([]string{"a.example"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := within.Tunnel(t.Context(), "secret.in.a.name.example:443"); err == nil || !strings.Contains(toolroom.AsError(err).Hint, `"secret.in.a.name.example:443"`) {
		t.Errorf("%v", err)
	}
	if names.Lookups("") != before {
		t.Error("a name that is not on the list was looked up")
	}
	if _, err := g.Within([]string{"http://a.example"}); err == nil {
		t.Error("an invalid entry was accepted")
	}
	if none, _ := g.Within(nil); none != nil {
		if _, err := none.Tunnel(t.Context(), "a.example:"+port); err == nil {
			t.Error("an empty list permits a host")
		}
	}
}
