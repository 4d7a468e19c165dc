package sandboxtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/egress/dnstest"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// outProgram tries the proxy of a program, and ways around it.
const outProgram = `
import http.client, os, socket, urllib.error, urllib.request
proxy = urllib.request.urlparse(os.environ.get("HTTP_PROXY", "http://127.0.0.1:1"))

def get(url, data=None):
    try:
        with urllib.request.urlopen(url, data, timeout=60) as r:
            return r.read().decode()
    except urllib.error.HTTPError as e:
        return "%d %s" % (e.code, e.read().decode())
    except OSError as e:
        return "failed: %s" % e

def tunnel(host, port):
    c = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=60)
    try:
        c.set_tunnel(host, port)
        c.request("GET", "/")
        return c.getresponse().read().decode()
    except OSError as e:
        return "failed: %s" % e
    finally:
        c.close()

def direct(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return "reached"
    except OSError as e:
        return "failed: %s" % e

def lookup(name):
    try:
        return "leads to %s" % socket.getaddrinfo(name, 80)[0][4][0]
    except OSError as e:
        return "failed: %s" % e

tries = {"get": get, "post": lambda url: len(get(url, b"x" * (1 << 20))), "big": lambda url: len(get(url)),
    "tunnel": lambda to: tunnel(*split(to)), "direct": lambda to: direct(*split(to)), "lookup": lookup}
def split(to):
    host, _, port = to.rpartition(":")
    return host, int(port)
[str(tries[t["how"]](t["to"])) for t in todo]
`

// attempt is an attempt of a program with a list of hosts.
type attempt struct {
	How  string `json:"how"`
	To   string `json:"to"`
	want string // a part of the expected outcome
}

// egress tests that a program with a list of hosts reaches those hosts, and no others.
func (s *suite) egress(t *testing.T) {
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	defer stranger.Close()
	strange := port(stranger)
	allowed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			_, _ = io.WriteString(w, strings.Repeat("y", 3<<20))
		case "/away":
			http.Redirect(w, r, "http://other.example:"+strange+"/", http.StatusFound)
		default:
			text, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "welcome to %s%s", r.Host, text)
		}
	}))
	defer allowed.Close()
	known := port(allowed)
	resolver, _ := dnstest.Serve(t, map[string][]string{
		"allowed.example": {"127.0.0.1"}, "other.example": {"127.0.0.1"}, "meta.example": {"169.254.169.254"}, "private.example": {"10.1.2.3"},
	})
	guard, err := egress.New(egress.Policy{Allow: []string{"loopback"}, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	list := []string{"allowed.example:" + known, "meta.example", "private.example", "10.1.2.3"}
	if guard, err = guard.Within(list); err != nil {
		t.Fatal(err)
	}
	ways := []attempt{
		{"get", "http://allowed.example:" + known + "/", "welcome to allowed.example"},
		{"post", "http://allowed.example:" + known + "/", fmt.Sprint(len("welcome to allowed.example:"+known) + 1<<20)},
		{"big", "http://allowed.example:" + known + "/big", fmt.Sprint(3 << 20)},
		{"tunnel", "allowed.example:" + known, "welcome to allowed.example"},
		{"get", "http://allowed.example:" + strange + "/", "403 toolroom: "},    // another port
		{"get", "http://other.example:" + strange + "/", "403 toolroom: "},      // another host
		{"get", "http://allowed.example:" + known + "/away", "403 toolroom: "},  // a redirect to it
		{"get", "http://meta.example/latest/meta-data/", "403 toolroom: "},      // on the list, but always refused
		{"get", "http://169.254.169.254/latest/meta-data/", "403 toolroom: "},   // the same by its address
		{"get", "http://private.example/", "403 toolroom: "},                    // on the list, but private
		{"tunnel", "10.1.2.3:80", "failed: Tunnel connection failed: 403"},      // the same by its address
		{"tunnel", "127.0.0.1:" + known, "failed: Tunnel connection failed: 4"}, // the allowed host by its address
		{"tunnel", "2130706433:" + known, "failed: Tunnel connection failed: 4"},
		{"tunnel", "localhost:" + known, "failed: Tunnel connection failed: 4"},
		{"direct", "169.254.169.254:80", "failed: "},
		{"direct", "8.8.8.8:53", "failed: "},
		{"direct", "127.0.0.1:" + known, "failed: "}, // the program's loopback is not this machine's
		{"lookup", "allowed.example", "failed: "},
	}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
			ways = append(ways, attempt{"direct", net.JoinHostPort(ip.IP.String(), known), "failed: "})
		}
	}
	text, err := json.Marshal(ways)
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []sandbox.Profile{sandbox.Standard, sandbox.Hardened, sandbox.Dev} {
		spec := s.spec(profile)
		spec.Egress = list
		out := s.run(t, engine.Job{
			Program: bridge.Program{Language: "python", Name: "main.py", Source: fmt.Sprintf("import json\ntodo = json.loads(%q)\n%s", text, outProgram)},
			Sandbox: spec, Dial: guard.Tunnel,
		})
		if !s.o.holdsEgress() {
			if toolroom.CodeOf(out.err) != toolroom.CodeLimitNotEnforceable && !s.lacksNetwork() {
				t.Errorf("%s: the driver does not enforce a list of hosts, but ran: %v", profile, out)
			}
			continue
		}
		if out.failed() {
			t.Fatalf("%s: the program ended with %v", profile, out)
		}
		if out.Held[sandbox.LimitEgress] == "" {
			t.Errorf("%s: the result does not say how the list was enforced: %v", profile, out.Held)
		}
		list, _ := out.Outcome.Value.([]bridge.Value)
		for i, w := range ways {
			if len(list) != len(ways) {
				t.Fatalf("%s: %v", profile, list)
			}
			if got, _ := list[i].(string); !strings.Contains(got, w.want) {
				t.Errorf("%s: %s %s returned %.200q, want %q", profile, w.How, w.To, got, w.want)
			}
		}
	}
	if n := strangers.Load(); n > 0 {
		t.Errorf("a host that is not on the list was reached %d times", n)
	}
}

func port(s *httptest.Server) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}
