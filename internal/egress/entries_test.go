package egress_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/egress/dnstest"
)

func TestEntriesAndProxiesAreCheckedBeforeTheyAreUsed(t *testing.T) {
	t.Parallel()
	for entry, good := range map[string]bool{
		"example.com": true, "*.example.com:443": true, "10.0.0.0/8": true, "private": true, "::1": true, "[::1]:80": true,
		"": false, "*": false, "a b": false, "0x7f.1": false, "example.com:0x50": false, "example.com:70000": false, "http://example.com": false, "user@example.com": false,
	} {
		if err := egress.CheckEntry(entry); (err == nil) != good {
			t.Errorf("entry %q: %v", entry, err)
		}
	}
	for proxy, good := range map[string]bool{"http://proxy:3128": true, "https://proxy": true, "ftp://proxy": false, "proxy:3128": false, "http://": false} {
		if err := egress.CheckProxy(proxy); (err == nil) != good {
			t.Errorf("proxy %q: %v", proxy, err)
		}
	}
	for host, plain := range map[string]bool{"example.com": true, "127.0.0.1": true, "": false, "127.1": false, "2130706433": false, "ex%61mple.com": false, "example.com.": false} {
		if egress.IsPlainHost(host) != plain {
			t.Errorf("host %q: %v", host, !plain)
		}
	}
}

func TestAnEntrySaysWhichHostsItNames(t *testing.T) {
	t.Parallel()
	for entry, cases := range map[string]map[string]bool{
		"*.evil.example":   {"a.evil.example:80": true, "A.EVIL.example:443": true, "evil.example:80": false, "notevil.example:80": false, "evil.example": false, "a.evil.example": false},
		"evil.example:443": {"evil.example:443": true, "evil.example:80": false, "a.evil.example:443": false},
		"10.0.0.0/8":       {"10.1.2.3:22": true, "11.0.0.1:22": false, "ten.example:22": false},
		"loopback":         {"127.0.0.1:80": true, "[::1]:80": true, "8.8.8.8:80": false},
	} {
		names, err := egress.ParseHosts(entry)
		if err != nil {
			t.Fatal(err)
		}
		for hostPort, want := range cases {
			if names(hostPort) != want {
				t.Errorf("%s names %s: %v", entry, hostPort, !want)
			}
		}
	}
	if _, err := egress.ParseHosts("a b"); err == nil {
		t.Error("an invalid entry is taken")
	}
}

func TestAGuardThatRefusesMoreRefusesNothingLess(t *testing.T) {
	t.Parallel()
	base := guard(t, egress.Policy{Allow: []string{"loopback"}, Deny: []string{"127.0.0.3"}})
	narrow, err := base.Denying([]string{"127.0.0.2"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"http://127.0.0.1/": true, "http://127.0.0.2/": false, "http://127.0.0.3/": false} {
		if err := narrow.CheckURL(t.Context(), address); (err == nil) != want || err != nil && toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := base.CheckURL(t.Context(), "http://127.0.0.2/"); err != nil {
		t.Errorf("the guard itself has changed: %v", err)
	}
	named, err := base.Denying([]string{"*.evil.example"})
	if err != nil {
		t.Fatal(err)
	}
	if err := named.CheckURL(t.Context(), "http://127.0.0.1/"); err == nil {
		t.Error("an address passes beside a refused name, which may lead there")
	}
	resolver, _ := dnstest.Serve(t, map[string][]string{"good.example": {"93.184.215.14"}})
	both, err := guard(t, egress.Policy{Resolver: resolver}).Denying([]string{"*.evil.example"})
	if err == nil {
		both, err = both.Denying([]string{"10.0.0.0/8"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := both.CheckURL(t.Context(), "http://good.example/"); err != nil {
		t.Errorf("a name beside a refused name: %v", err)
	}
	if err := both.CheckURL(t.Context(), "http://93.184.215.14/"); err == nil {
		t.Error("an address passes beside a name that an earlier list refused")
	}
	if _, err := (*egress.Guard)(nil).Denying([]string{"a b"}); err == nil {
		t.Error("an invalid entry is taken")
	}
}

func TestAnOwnServiceIsItsHostAndItsPort(t *testing.T) {
	t.Parallel()
	g := guard(t, egress.Policy{}).WithOwn(parse(t, "http://localhost:8081"), parse(t, "http://127.0.0.1:8082"))
	for address, want := range map[string]bool{
		"http://localhost:8081/": true, "http://LOCALHOST:8081/": true, "http://127.0.0.1:8082/": true,
		"http://localhost:8082/": false, "http://localhost:8083/": false, "http://127.0.0.1:8083/": false, "http://127.0.0.2:8082/": false, "http://[::1]:8082/": false,
	} {
		if err := g.CheckURL(t.Context(), address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	named, err := guard(t, egress.Policy{Allow: []string{"loopback"}}).WithOwn(parse(t, "http://127.0.0.1:8082")).Denying([]string{"*.evil.example"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"http://127.0.0.1:8082/": true, "http://127.0.0.1:8083/": false, "http://127.0.0.2:8082/": false} {
		if err := named.CheckURL(t.Context(), address); (err == nil) != want {
			t.Errorf("beside a refused name, %s: %v", address, err)
		}
	}
	for network, want := range map[string]bool{"tcp": true, "tcp4": true, "tcp6": true, "udp": false, "unix": false, "ip": false} {
		c, err := g.DialContext(t.Context(), network, "127.0.0.1:8082")
		if err == nil {
			c.Close()
		}
		if denied := toolroom.CodeOf(err) == toolroom.CodeDenied; denied == want && err != nil {
			t.Errorf("%s: %v", network, err)
		}
	}
	if !egress.IsPlainHost("ZEBRA.example") {
		t.Error("a host with a Z is refused")
	}
}

func TestAServiceWithTLSIsNotAlsoReachedWithout(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"tls.example": {"127.0.0.1"}, "plain.example": {"127.0.0.1"}})
	g := guard(t, egress.Policy{Resolver: resolver}).WithOwn(parse(t, "https://tls.example"), parse(t, "http://plain.example"))
	for address, want := range map[string]bool{
		"https://tls.example/": true, "http://plain.example/": true, "https://plain.example/": true,
		"http://tls.example/": false, // whoever runs the service could let its name lead to a server inside
	} {
		if err := g.CheckURL(t.Context(), address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
