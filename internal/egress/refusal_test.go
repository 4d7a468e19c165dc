package egress_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/egress/dnstest"
)

func TestARefusalSaysWhatTheHostIsAndTheNarrowestEntry(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"in.example": {"10.0.0.7"}, "meta.example": {"169.254.169.254"}})
	g := guard(t, egress.Policy{Resolver: resolver})
	for _, tt := range []struct{ address, says, entry, class, ip string }{
		{"http://10.0.0.7/", "it is a private address", "10.0.0.7:80", "private", "10.0.0.7"},
		{"http://LOCALHOST:8081/", "it is a loopback address", "localhost:8081", "loopback", ""},
		{"https://in.example/", "it resolves to 10.0.0.7, a private address", "in.example:443", "private", "10.0.0.7"},
		{"http://meta.example/", "it resolves to 169.254.169.254, a metadata address", "", "metadata", "169.254.169.254"},
		{"http://metadata.google.internal/", "it is a metadata address", "", "metadata", ""},
		{"http://169.254.169.254/", "it is a metadata address", "", "metadata", "169.254.169.254"},
	} {
		e := toolroom.AsError(g.CheckURL(t.Context(), tt.address))
		address, _ := e.Details["address"].(string)
		entry, _ := e.Details["allow"].(string)
		if tt.entry == "" && strings.Contains(e.Hint, "allow:") { // nobody is talked into opening the machine's credentials
			t.Errorf("%s: the hint is %q", tt.address, e.Hint)
		}
		if !strings.Contains(e.Message, tt.says) || entry != tt.entry || e.Details["class"] != tt.class || address != tt.ip {
			t.Errorf("%s: %v, %v", tt.address, e, e.Details)
		}
	}
	denied := toolroom.AsError(guard(t, egress.Policy{Deny: []string{"10.0.0.0/8"}}).CheckURL(t.Context(), "http://10.0.0.7/"))
	if denied.Details["host"] != "10.0.0.7" || denied.Details["address"] != "10.0.0.7" || denied.Details["class"] != "private" {
		t.Errorf("a host that a rule denies: %v", denied.Details)
	}
	if e := toolroom.AsError(g.CheckURL(t.Context(), "http://gone.example/")); e.Code != toolroom.CodeUpstreamUnavailable || e.Hint == "" {
		t.Errorf("a name that does not resolve: %v, hint %q", e, e.Hint)
	}
	if e := toolroom.AsError(guard(t, egress.Policy{Closed: true}).CheckURL(t.Context(), "http://Far.example/")); e.Details["allow"] != "far.example:80" {
		t.Errorf("a name while egress is closed: %v, %v", e, e.Details)
	}
	if e := toolroom.AsError(guard(t, egress.Policy{Closed: true}).CheckURL(t.Context(), "http://93.184.215.14/")); e.Code != toolroom.CodeDenied || e.Details["allow"] != "93.184.215.14:80" {
		t.Errorf("a public address while egress is closed: %v, %v", e, e.Details)
	}
}

func TestHostsAreReadInOnePlainForm(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat(strings.Repeat("a", 49)+".", 5) + "abc"
	for host, plain := range map[string]bool{
		longest: true, longest + "d": false, "example.cafe": true, "example.0xzz": true, "example.0xcafe": false, "example.7": false,
		"::1": true, "::": true, "::g": false, "2606:4700::1111": true,
	} {
		if egress.IsPlainHost(host) != plain {
			t.Errorf("%q: %v", host, !plain)
		}
	}
	for host, says := range map[string]string{"bücher.example": "xn--", "a\x80b.example": "xn--", "::ffff:1.2.3.4": "IPv6 form", "::1.2.3.4": "IPv6 form", "a_b$c.example": "not allowed in host names"} {
		if err := egress.CheckEntry(host); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", host, err)
		}
	}
	g := guard(t, egress.Policy{Allow: []string{"[::1]"}})
	if err := g.CheckURL(t.Context(), "http://[::1]:8081/"); err != nil {
		t.Errorf("an entry in brackets without a port: %v", err)
	}
}

func TestADeniedNameIsNotLookedUp(t *testing.T) {
	t.Parallel()
	resolver, names := dnstest.Serve(t, map[string][]string{"bad.example": {"93.184.215.14"}})
	g := guard(t, egress.Policy{Deny: []string{"bad.example"}, Resolver: resolver})
	if err := g.CheckURL(t.Context(), "http://bad.example/"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Error(err)
	}
	if n := names.Lookups(""); n != 0 {
		t.Errorf("%d lookups", n)
	}
}

func TestOwnServicesStayWithTheirGuard(t *testing.T) {
	t.Parallel()
	base := guard(t, egress.Policy{}).WithOwn(parse(t, "http://10.0.0.1:1"), parse(t, "http://10.0.0.1:2"), parse(t, "http://10.0.0.1:3"))
	a := base.WithOwn(parse(t, "http://10.0.0.1:4"))
	b := base.WithOwn(parse(t, "http://10.0.0.1:5"))
	for _, tt := range []struct {
		g       *egress.Guard
		port    string
		reached bool
	}{{a, "4", true}, {a, "5", false}, {a, "1", true}, {b, "5", true}, {b, "4", false}, {base, "4", false}} {
		if err := tt.g.CheckURL(t.Context(), "http://10.0.0.1:"+tt.port+"/"); (err == nil) != tt.reached {
			t.Errorf("port %s: %v", tt.port, err)
		}
	}
	// A service that is configured without a port may redirect to https. The operator has
	// written its address, so its class does not matter.
	g := (*egress.Guard)(nil).WithOwn(nil, &url.URL{Path: "/x"}, parse(t, "http://169.254.1.1"))
	if _, err := g.DialContext(t.Context(), "tcp", ":443"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("a service without a host permits every host without a name: %v", err)
	}
	if _, err := g.DialContext(t.Context(), "tcp", "169.254.1.1"); err == nil || !strings.Contains(err.Error(), "only TCP connections to host:port") {
		t.Errorf("an address without a port: %v", err)
	}
	for address, reached := range map[string]bool{"http://169.254.1.1/": true, "https://169.254.1.1/": true, "http://169.254.1.1:8080/": false} {
		if err := g.CheckURL(t.Context(), address); (err == nil) != reached {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAListOfAddressesStopsNamesOnOtherPorts(t *testing.T) {
	t.Parallel()
	resolver, names := dnstest.Serve(t, map[string][]string{"a.example": {"93.184.215.14"}})
	for entry, reached := range map[string]bool{"93.184.215.14:80": true, "93.184.215.14": true, "93.184.215.14:81": false, "b.example": false} {
		g, err := guard(t, egress.Policy{Resolver: resolver}).Within([]string{entry})
		if err != nil {
			t.Fatal(err)
		}
		before := names.Lookups("")
		if err := g.CheckURL(t.Context(), "http://a.example/"); (err == nil) != reached {
			t.Errorf("within %s: %v", entry, err)
		}
		if asked := names.Lookups("") > before; asked != reached {
			t.Errorf("within %s: looked up: %v", entry, asked)
		}
	}
	public, err := (*egress.Guard)(nil).Within([]string{"public"})
	if err != nil {
		t.Fatal(err)
	}
	if err := public.CheckURL(t.Context(), "http://93.184.215.14/"); err != nil {
		t.Error(err)
	}
}

// A name that only the proxy resolves has no address to check.
func TestANameThatOnlyTheProxyResolvesNeedsAnEntryForTheName(t *testing.T) {
	t.Parallel()
	proxy, proxied := service(t, nil)
	resolver, _ := dnstest.Serve(t, map[string][]string{"in.example": {"10.0.0.1"}})
	block := guard(t, egress.Policy{Closed: true, Allow: []string{"10.0.0.0/8"}, Proxy: proxy.URL, Resolver: resolver})
	response, err := block.Client().Get("http://in.example/")
	if err != nil {
		t.Fatalf("a name of an allowed address: %v", err)
	}
	response.Body.Close()
	for _, tt := range []struct {
		policy  egress.Policy
		reached bool
	}{
		{egress.Policy{}, true},
		{egress.Policy{Closed: true, Allow: []string{"far.example"}}, true},
		{egress.Policy{Closed: true, Allow: []string{"10.0.0.0/8"}}, false},
		{egress.Policy{Deny: []string{"public"}}, false},
	} {
		tt.policy.Proxy, tt.policy.Resolver = proxy.URL, resolver
		before := proxied.Load()
		response, err := guard(t, tt.policy).Client().Get("http://far.example/")
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != tt.reached || (proxied.Load() > before) != tt.reached || err != nil && toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%+v: %v", tt.policy, err)
		}
	}
}

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

func TestATransportClosesTheBodyOfARefusedRequestAndItsIdleConnections(t *testing.T) {
	t.Parallel()
	body := &closer{Reader: strings.NewReader("x")}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://10.0.0.1/", body)
	if _, err := guard(t, egress.Policy{}).Transport().RoundTrip(request); err == nil || !body.closed {
		t.Errorf("%v; the body is closed: %v", err, body.closed)
	}
	closed := make(chan struct{}, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	client := guard(t, egress.Policy{Allow: []string{"loopback"}}).Client()
	response, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	client.CloseIdleConnections()
	<-closed
}
