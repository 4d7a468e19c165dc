package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/egress/dnstest"
)

func guard(t testing.TB, p egress.Policy) *egress.Guard {
	t.Helper()
	g, err := egress.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func parse(t testing.TB, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// attacks are addresses that some parsers understand as addresses that a tool must not
// reach.
var attacks = []string{
	// Loopback, private, and the like as they are.
	"http://127.0.0.1/", "http://127.1.2.3/", "http://127.255.255.254:8080/", "https://127.0.0.1/",
	"http://localhost/", "http://LOCALHOST/", "http://app.localhost/", "http://localhost.localdomain/", "http://ip6-localhost/",
	"http://0.0.0.0/", "http://0.1.2.3/", "http://10.0.0.1/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.1.1/",
	"http://100.64.0.1/", "http://100.127.255.255/", "http://169.254.1.1/", "http://224.0.0.1/", "http://239.255.255.250/",
	"http://240.0.0.1/", "http://255.255.255.255/", "http://192.0.2.1/", "http://198.18.0.1/", "http://203.0.113.7/", "http://192.88.99.1/",
	// Metadata services.
	"http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/v2/credentials", "http://100.100.100.200/", "http://168.63.129.16/",
	"http://192.0.0.192/", "http://[fd00:ec2::254]/", "http://[fd20:ce::254]/", "http://metadata.google.internal/", "http://METADATA.google.internal/",
	"http://metadata/", "http://metadata.goog/", "http://instance-data/latest/",
	// IPv6.
	"http://[::1]/", "http://[0:0:0:0:0:0:0:1]/", "http://[::]/", "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/",
	"http://[fd12:3456::1]/", "http://[fec0::1]/", "http://[ff02::1]/", "http://[100::1]/", "http://[2001:db8::1]/", "http://[2001::1]/",
	// IPv4 within IPv6: mapped, compatible, 6to4, NAT64.
	"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::ffff:a9fe:a9fe]/", "http://[0:0:0:0:0:ffff:127.0.0.1]/", "http://[::ffff:8.8.8.8]/",
	"http://[::127.0.0.1]/", "http://[::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::1]/", "http://[2002:808:808::1]/",
	"http://[64:ff9b::127.0.0.1]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::7f00:1]/",
	// Decimal, octal, hexadecimal, mixed and short IPv4.
	"http://2130706433/", "http://017700000001/", "http://0x7f000001/", "http://0x7F.1/", "http://0177.0.0.1/", "http://0177.0.0.01/",
	"http://127.1/", "http://127.0.1/", "http://0/", "http://0x0/", "http://127.0.0.0x1/", "http://00000177.1/", "http://127.000.000.001/",
	"http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.254.43518/", "http://127.0.0.256/", "http://1.2.3.4.5/",
	// Dots.
	"http://127.0.0.1./", "http://localhost./", "http://metadata.google.internal./", "http://127.0.0.1../", "http://.localhost/", "http://a..b/",
	// User info, and characters that parsers treat differently.
	"http://example.com@127.0.0.1/", "http://example.com:80@127.0.0.1/", "http://127.0.0.1@example.com/", "http://user:pass@example.com/",
	`http://example.com\@127.0.0.1/`, "http://127.0.0.1#@example.com/", "http://127.0.0.1?@example.com/", "http://127.0.0.1;@example.com/",
	"http://127.0.0.1\t/", "http://127.0.0.1\r\nHost: a/", " http://127.0.0.1/", "http://exam ple.com/", "http:// 127.0.0.1/",
	// Percent-encoded hosts.
	"http://%31%32%37.0.0.1/", "http://127%2e0%2e0%2e1/", "http://%6c%6f%63alhost/", "http://localhost%00.example.com/", "http://%6cocalhost/", "http://127.0.0.1%23.example.com/",
	// Digits and dots beyond ASCII, which IDNA maps to ASCII.
	"http://１２７.0.0.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://127．0．0．1/", "http://ｌｏｃａｌｈｏｓｔ/", "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "http://loc\u00adalhost/", "http://169.254.169.254\u200b/", "http://١٢٧.0.0.1/", "http://bücher.example/",
	// Schemes and shapes.
	"file:///etc/passwd", "gopher://127.0.0.1:6379/_INFO", "ftp://127.0.0.1/", "dict://127.0.0.1:11211/", "//127.0.0.1/", "http:127.0.0.1", "http:///127.0.0.1/", "http://", "", "http://[::1", "http://[127.0.0.1]/", "http://:80/", "javascript:alert(1)", "unix:///var/run/docker.sock",
	"http://example.com:0/", "http://example.com:99999/", "http://" + strings.Repeat("a", 300) + "/",
}

func TestAddressFormsOfAttacksAreRefused(t *testing.T) {
	t.Parallel()
	resolver, names := dnstest.Serve(t, nil)
	g := guard(t, egress.Policy{Resolver: resolver})
	client := g.Client()
	for _, attack := range attacks {
		if err := g.CheckURL(t.Context(), attack); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("CheckURL(%q) says %v", attack, err)
		}
		// No request can be made of an address that url.Parse refuses.
		u, err := url.Parse(attack)
		if err != nil {
			continue
		}
		response, err := client.Do((&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(t.Context()))
		if err == nil {
			response.Body.Close()
			t.Errorf("GET %q was answered", attack)
		}
	}
	if n := names.Lookups(""); n > 0 {
		t.Errorf("%d names were looked up", n)
	}
}

func TestDialRefusesTheSameAddressesAsCheckURL(t *testing.T) {
	t.Parallel()
	g := guard(t, egress.Policy{})
	for _, address := range []string{
		"127.0.0.1:80", "[::1]:80", "169.254.169.254:80", "10.0.0.1:443", "2130706433:80", "127.1:80", "[::ffff:127.0.0.1]:80",
		"localhost:80", "example.com:0", "example.com", "/run/docker.sock", "example.com:http",
	} {
		if conn, err := g.DialContext(t.Context(), "tcp", address); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("dial %q: %v, %v", address, conn, err)
		}
	}
	for _, network := range []string{"udp", "unix", "ip"} {
		if _, err := g.DialContext(t.Context(), network, "127.0.0.1:80"); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("dial over %s: %v", network, err)
		}
	}
}

// nowhere is a resolver's Dial without a server: no lookup leaves the machine.
func nowhere(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no name server")
}

// service starts an HTTP server that counts its requests.
func service(t testing.TB, handler http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var reached atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		if handler != nil {
			handler(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, &reached
}

func portOf(t testing.TB, s *httptest.Server) string {
	t.Helper()
	return parse(t, s.URL).Port()
}

func TestANameThatRebindsBetweenLookupAndDialIsRefused(t *testing.T) {
	t.Parallel()
	s, reached := service(t, nil)
	resolver, names := dnstest.Serve(t, map[string][]string{"rebind.example": {"93.184.215.14", "127.0.0.1"}})
	g := guard(t, egress.Policy{Resolver: resolver})
	address := "http://rebind.example:" + portOf(t, s) + "/"
	if err := g.CheckURL(t.Context(), address); err != nil {
		t.Fatalf("the first answer is a public address: %v", err)
	}
	_, err := g.Client().Get(address)
	if toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("the second answer is this machine: %v", err)
	}
	if reached.Load() != 0 || names.Lookups("rebind.example") < 2 {
		t.Errorf("%d requests came through; %d lookups", reached.Load(), names.Lookups("rebind.example"))
	}
}

func TestNamesThatResolveToForbiddenAddressesAreRefused(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{
		"loop.example": {"127.0.0.1"}, "loop6.example": {"::1"}, "inside.example": {"10.1.2.3"}, "meta.example": {"169.254.169.254"},
		"meta6.example": {"fd00:ec2::254"}, "nat.example": {"64:ff9b::a9fe:a9fe"}, "mapped.example": {"::ffff:127.0.0.1"}, "six.example": {"2002:7f00:1::1"}, "zero.example": {"0.0.0.0"},
	})
	for _, tt := range []struct{ name, class string }{
		{"loop.example", "loopback"},
		{"loop6.example", "loopback"},
		{"inside.example", "private"},
		{"meta.example", "metadata"},
		{"meta6.example", "metadata"},
		{"nat.example", "metadata"},
		{"mapped.example", "loopback"},
		{"six.example", "loopback"},
		{"zero.example", "unspecified"},
	} {
		g := guard(t, egress.Policy{Resolver: resolver})
		_, err := g.DialContext(t.Context(), "tcp", tt.name+":80")
		e := toolroom.AsError(err)
		if e.Code != toolroom.CodeDenied || e.Details["class"] != tt.class || e.Details["host"] != tt.name {
			t.Errorf("%s: %v, %v", tt.name, err, e.Details)
		}
	}
}

func TestEveryRedirectIsJudged(t *testing.T) {
	t.Parallel()
	inside, reached := service(t, nil)
	for _, to := range []string{inside.URL, "http://localhost:" + portOf(t, inside), "http://inside.example:" + portOf(t, inside), "http://0x7f000001:" + portOf(t, inside)} {
		resolver, _ := dnstest.Serve(t, map[string][]string{"inside.example": {"127.0.0.1"}})
		outside, _ := service(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
		g := guard(t, egress.Policy{Resolver: resolver}).WithOwn(parse(t, outside.URL))
		if _, err := g.Client().Get(outside.URL); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("a redirect to %s: %v", to, err)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests came through", n)
	}
}

func TestAllowedNamesAndAddressesAreReached(t *testing.T) {
	t.Parallel()
	s, _ := service(t, nil)
	port := portOf(t, s)
	resolver, _ := dnstest.Serve(t, map[string][]string{"in.corp.example": {"127.0.0.1"}})
	for _, tt := range []struct {
		allow, address string
		reached        bool
	}{
		{"loopback", "http://127.0.0.1:" + port, true},
		{"loopback", "http://in.corp.example:" + port, true},
		{"127.0.0.0/8", "http://127.0.0.1:" + port, true},
		{"127.0.0.1", "http://127.0.0.1:" + port, true},
		{"127.0.0.1:" + port, "http://127.0.0.1:" + port, true},
		{"127.0.0.1:1", "http://127.0.0.1:" + port, false},
		{"in.corp.example", "http://in.corp.example:" + port, true},
		{"in.corp.example:" + port, "http://IN.corp.example:" + port, true},
		{"in.corp.example:1", "http://in.corp.example:" + port, false},
		{"*.corp.example", "http://in.corp.example:" + port, true},
		{"*.example", "http://in.corp.example:" + port, true},
		{"corp.example", "http://in.corp.example:" + port, false},
		{"*.in.corp.example", "http://in.corp.example:" + port, false},
		{"in.corp.example", "http://127.0.0.1:" + port, false},
		{"private", "http://127.0.0.1:" + port, false},
		{"localhost", "http://127.0.0.1:" + port, false},
	} {
		g := guard(t, egress.Policy{Allow: []string{tt.allow}, Resolver: resolver})
		response, err := g.Client().Get(tt.address)
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != tt.reached || err != nil && toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("allow %q, GET %s: %v", tt.allow, tt.address, err)
		}
	}
}

// A response that ends after its request has ended may be a part.
func TestAResponseIsNotWholeAfterACancel(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "part") }))
	t.Cleanup(s.Close)
	client := guard(t, egress.Policy{Allow: []string{"loopback"}}).Client()
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		stopped := errors.New("stopped")
		if cancelled {
			cancel(stopped)
		}
		text, err := io.ReadAll(response.Body)
		if cancelled != errors.Is(err, stopped) || !cancelled && (err != nil || string(text) != "part") {
			t.Errorf("cancelled %t: %q, %v", cancelled, text, err)
		}
		response.Body.Close()
		cancel(nil)
	}
}

// The body of a response that switches protocols is written to as well.
func TestAConnectionThatSwitchesProtocolsCanBeWritten(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	}))
	t.Cleanup(s.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "echo")
	response, err := guard(t, egress.Policy{Allow: []string{"loopback"}}).Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, ok := response.Body.(io.Writer); response.StatusCode != http.StatusSwitchingProtocols || !ok {
		t.Errorf("%s, with a body that is a %T", response.Status, response.Body)
	}
}

// A translator, such as NAT64, delivers what is sent to an IPv6 address to the IPv4 address in it.
func TestADeniedAddressIsDeniedWithinIPv6(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{
		"nat.example": {"64:ff9b::808:808"}, "private.example": {"64:ff9b::a00:1"}, "six.example": {"2002:808:808::1"}, "other.example": {"64:ff9b::808:404"},
	})
	g := guard(t, egress.Policy{Allow: []string{"private", "reserved"}, Deny: []string{"8.8.8.8", "10.0.0.0/8"}, Resolver: resolver})
	for name, denied := range map[string]bool{"nat.example": true, "private.example": true, "six.example": true, "other.example": false} {
		if err := g.CheckURL(t.Context(), "http://"+name+"/"); (toolroom.CodeOf(err) == toolroom.CodeDenied) != denied {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A block may be written in the form in which IPv6 contains IPv4.
func TestABlockOfIPv4WithinIPv6IsDeniedInAllForms(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{
		"plain.example": {"10.1.2.3"}, "nat.example": {"64:ff9b::a01:203"}, "six.example": {"2002:a01:203::1"}, "other.example": {"11.1.2.3"},
	})
	g := guard(t, egress.Policy{Allow: []string{"private", "reserved"}, Deny: []string{"::10.0.0.0/104"}, Resolver: resolver})
	for name, denied := range map[string]bool{"plain.example": true, "nat.example": true, "six.example": true, "other.example": false} {
		if err := g.CheckURL(t.Context(), "http://"+name+"/"); (toolroom.CodeOf(err) == toolroom.CodeDenied) != denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, entry := range []string{"::/0", "::/96", "64:ff9b::b00:0/104", "2002::/16", "::1/128"} {
		g := guard(t, egress.Policy{Deny: []string{entry}, Resolver: resolver})
		if err := g.CheckURL(t.Context(), "http://other.example/"); err != nil {
			t.Errorf("deny %s: %v", entry, err)
		}
	}
}

func TestANameNeverCoversTheMetadataService(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"own.example": {"169.254.169.254"}})
	g := guard(t, egress.Policy{Allow: []string{"own.example", "metadata.google.internal"}, Resolver: resolver}).WithOwn(parse(t, "http://own.example"))
	for _, address := range []string{"http://own.example/", "http://metadata.google.internal/"} {
		if err := g.CheckURL(t.Context(), address); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, entry := range []string{"metadata", "169.254.169.254", "169.254.0.0/16"} {
		if err := guard(t, egress.Policy{Allow: []string{entry}}).CheckURL(t.Context(), "http://169.254.169.254/"); err != nil {
			t.Errorf("allow %q: %v", entry, err)
		}
	}
}

func TestDenyTakesPrecedenceOverAllowAndOwn(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"a.evil.example": {"93.184.215.14"}, "b.example": {"10.0.0.7"}})
	for _, tt := range []struct{ deny, address string }{
		{"*.evil.example", "https://a.evil.example/"},
		{"a.evil.example:443", "https://a.evil.example/"},
		{"public", "https://a.evil.example/"},
		{"93.184.0.0/16", "https://a.evil.example/"},
		{"private", "https://b.example/"},
		{"loopback", "http://127.0.0.1:8081/"},
	} {
		g := guard(t, egress.Policy{Allow: []string{"a.evil.example", "b.example", "loopback"}, Deny: []string{tt.deny}, Resolver: resolver}).
			WithOwn(parse(t, tt.address))
		err := g.CheckURL(t.Context(), tt.address)
		if toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.Contains(err.Error(), tt.deny) {
			t.Errorf("deny %q, %s: %v", tt.deny, tt.address, err)
		}
	}
}

func TestAClosedGuardReachesOnlyAllowedHosts(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"a.example": {"93.184.215.14"}, "b.example": {"93.184.215.14"}})
	g := guard(t, egress.Policy{Closed: true, Allow: []string{"a.example"}, Resolver: resolver})
	if err := g.CheckURL(t.Context(), "https://a.example/"); err != nil {
		t.Error(err)
	}
	if err := g.CheckURL(t.Context(), "https://b.example/"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("b.example: %v", err)
	}
	if err := g.WithOwn(parse(t, "https://b.example")).CheckURL(t.Context(), "https://b.example/"); err != nil {
		t.Errorf("the name of a configured service: %v", err)
	}
	for entry, reached := range map[string]bool{"93.184.215.14": true, "93.184.215.15": false} {
		block := guard(t, egress.Policy{Closed: true, Allow: []string{entry}, Resolver: resolver})
		if err := block.CheckURL(t.Context(), "https://a.example/"); (err == nil) != reached {
			t.Errorf("a name whose address %s is: %v", entry, err)
		}
	}
}

func TestARefusalNamesTheLineThatWouldAllowIt(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"in.example": {"10.0.0.7"}})
	for _, address := range []string{
		"http://127.0.0.1:8081/x", "http://[::1]:8081/", "http://localhost/", "https://in.example/", "http://10.0.0.7/",
	} {
		err := guard(t, egress.Policy{Resolver: resolver}).CheckURL(t.Context(), address)
		e := toolroom.AsError(err)
		entry, _ := e.Details["allow"].(string)
		if want := fmt.Sprintf("egress: {allow: [%q]}", entry); entry == "" || !strings.Contains(e.Hint, want) {
			t.Errorf("%s: hint %q", address, e.Hint)
			continue
		}
		if err := guard(t, egress.Policy{Allow: []string{entry}, Resolver: resolver}).CheckURL(t.Context(), address); err != nil && !strings.Contains(err.Error(), "cannot look up") {
			t.Errorf("%s with %q allowed: %v", address, entry, err)
		}
	}
}

func TestAConfiguredServiceIsReachedAtItsOwnPortOnly(t *testing.T) {
	t.Parallel()
	own, _ := service(t, nil)
	other, reached := service(t, nil)
	client := guard(t, egress.Policy{}).WithOwn(parse(t, own.URL)).Client()
	response, err := client.Get(own.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if _, err := client.Get(other.URL); toolroom.CodeOf(err) != toolroom.CodeDenied || reached.Load() != 0 {
		t.Errorf("another port of the same host: %v", err)
	}
}

func TestProxiesAreUsedOnlyWhenThePolicyNamesThem(t *testing.T) {
	proxy, proxied := service(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "by proxy "+r.URL.Host) })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	resolver, _ := dnstest.Serve(t, map[string][]string{"out.example": {"93.184.215.14"}, "in.example": {"10.0.0.1"}, "closed.example": {"0.0.0.0"}})
	own, direct := service(t, nil)

	response, err := guard(t, egress.Policy{Resolver: resolver}).WithOwn(parse(t, own.URL)).Client().Get(own.URL)
	if err != nil || proxied.Load() != 0 || direct.Load() != 1 {
		t.Fatalf("%v: %d by the proxy of the environment, %d direct", err, proxied.Load(), direct.Load())
	}
	response.Body.Close()

	g := guard(t, egress.Policy{Proxy: proxy.URL, Deny: []string{"bad.example"}, Resolver: resolver}).WithOwn(parse(t, own.URL))
	for address, reached := range map[string]bool{
		"http://out.example/": true, "http://unknown.example/": true, "http://in.example/": false, "http://10.0.0.1/": false,
		"http://bad.example/": false, "http://2130706433/": false, "http://169.254.169.254/": false, own.URL: true,
	} {
		response, err := g.Client().Get(address)
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != reached {
			t.Errorf("%s: %v", address, err)
		}
	}
	if direct.Load() != 2 {
		t.Error("a request to this machine went through the proxy")
	}
	closed := guard(t, egress.Policy{Closed: true, Proxy: proxy.URL, Resolver: resolver})
	if _, err := closed.Client().Get("http://unknown.example/"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("closed, by proxy: %v", err)
	}
}

func TestInvalidEntriesAreRefused(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", "*", "*.", "http://example.com", "example.com/path", "10.0.0.0/33", "example.com:99999", "example.com:0", "127.1", "0x7f.1",
		"a b", "bücher.example", "*.10.0.0.1", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "exa*mple.com", "[::1%1]", "example.com.", "user@example.com",
	} {
		if _, err := egress.New(egress.Policy{Allow: []string{entry}}); err == nil || !strings.HasPrefix(err.Error(), "allow[0]: ") {
			t.Errorf("%q: %v", entry, err)
		}
		if _, err := egress.New(egress.Policy{Deny: []string{"loopback", entry}}); err == nil || !strings.HasPrefix(err.Error(), "deny[1]: ") {
			t.Errorf("%q: %v", entry, err)
		}
	}
	for _, proxy := range []string{"proxy:3128", "ftp://proxy", "http://", "\x00"} {
		if _, err := egress.New(egress.Policy{Proxy: proxy}); err == nil {
			t.Errorf("proxy %q is accepted", proxy)
		}
	}
}

func TestAddressesHaveTheClassOfTheRegistries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]egress.Class{
		"8.8.8.8": egress.Public, "1.1.1.1": egress.Public, "172.32.0.1": egress.Public, "100.128.0.1": egress.Public, "192.0.1.1": egress.Public,
		"2606:4700::1111": egress.Public, "64:ff9b::808:808": egress.Public, "64:ff9b::7f00:1": egress.Loopback, "::ffff:8.8.8.8": egress.Public,
		"172.31.0.1": egress.Private, "fd00::1": egress.Private, "100.64.0.1": egress.Shared, "fe80::1%eth0": egress.LinkLocal,
		"2002:a00:1::": egress.Private, "2002:808:808::": egress.Reserved, "::8.8.8.8": egress.Reserved, "64:ff9b:1::1": egress.Reserved, "4000::1": egress.Reserved,
		"ff0e::1": egress.Multicast, "0.0.0.0": egress.Unspecified, "::": egress.Unspecified, "168.63.129.16": egress.Metadata,
	} {
		if got := egress.Classify(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// FuzzAcceptedAddressesArePublic compares the guard with the standard library: an address
// that is accepted without a lookup is a literal public address.
func FuzzAcceptedAddressesArePublic(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack)
	}
	f.Add("https://8.8.8.8:443/x?y#z")
	g := guard(f, egress.Policy{Resolver: &net.Resolver{PreferGo: true, Dial: nowhere}})
	f.Fuzz(func(t *testing.T, address string) {
		err := g.CheckURL(t.Context(), address)
		if err != nil {
			if code := toolroom.CodeOf(err); code != toolroom.CodeDenied && code != toolroom.CodeUpstreamUnavailable {
				t.Fatalf("%q: %v has code %s", address, err, code)
			}
			return
		}
		u, err := url.Parse(address)
		if err != nil {
			t.Fatalf("%q is accepted, but is not a URL", address)
		}
		addr, err := netip.ParseAddr(u.Hostname())
		if err != nil || egress.Classify(addr) != egress.Public || addr.Unmap().IsLoopback() || addr.Unmap().IsPrivate() {
			t.Fatalf("%q is accepted", address)
		}
	})
}

func BenchmarkCheckAnAddress(b *testing.B) {
	g := guard(b, egress.Policy{Allow: []string{"*.corp.example", "10.0.0.0/8"}, Deny: []string{"*.evil.example", "metadata"}})
	for b.Loop() {
		if err := g.CheckURL(b.Context(), "https://93.184.215.14/path"); err != nil {
			b.Fatal(err)
		}
	}
}

// The difference of the next two benchmarks is the cost of the guard.
func BenchmarkRequestThroughTheGuard(b *testing.B) {
	s, _ := service(b, nil)
	benchmarkGet(b, guard(b, egress.Policy{}).WithOwn(parse(b, s.URL)).Client(), s.URL)
}

func BenchmarkRequestWithoutTheGuard(b *testing.B) {
	s, _ := service(b, nil)
	benchmarkGet(b, &http.Client{Transport: &http.Transport{}}, s.URL)
}

func benchmarkGet(b *testing.B, client *http.Client, address string) {
	b.ReportAllocs()
	for b.Loop() {
		response, err := client.Get(address)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
