package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/egress/dnstest"
)

// flicker is a server that listens and stops again, as its program likes: answers has what
// Serves returns, from the first question on.
type flicker struct {
	answers string
	asked   int
}

func (f *flicker) Serves(uint16) bool {
	f.asked++
	return f.asked <= len(f.answers) && f.answers[f.asked-1] == '1'
}

func (f *flicker) Dial(context.Context, uint16) (net.Conn, error) {
	return nil, errors.New("it has stopped")
}

// A program in the sandbox chooses when it listens. That must never lead to this machine's
// own loopback.
func TestAServerThatComesAndGoesDoesNotOpenThisMachine(t *testing.T) {
	t.Parallel()
	s, reached := service(t, func(http.ResponseWriter, *http.Request) {})
	address := strings.TrimPrefix(s.URL, "http://")
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{address, "localhost:" + port} {
		for n := range 1 << 5 {
			answers := ""
			for bit := range 5 {
				answers += string('0' + rune(n>>bit&1))
			}
			base := &egress.Guard{}
			for name, dial := range map[string]func(g *egress.Guard) error{
				"dial": func(g *egress.Guard) error {
					conn, err := g.DialContext(t.Context(), "tcp", to)
					if err == nil {
						conn.Close()
					}
					return err
				},
				"tunnel": func(g *egress.Guard) error {
					conn, err := g.Tunnel(t.Context(), to)
					if err == nil {
						conn.Close()
					}
					return err
				},
				"request": func(g *egress.Guard) error {
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+to+"/", nil)
					if err != nil {
						t.Fatal(err)
					}
					answer, err := g.Transport().RoundTrip(request)
					if err == nil {
						answer.Body.Close()
					}
					return err
				},
			} {
				if err := dial(base.WithLocal(&flicker{answers: answers})); err == nil {
					t.Errorf("%s of %s with %s reached this machine", name, to, answers)
				}
			}
		}
	}
	if reached.Load() != 0 {
		t.Errorf("%d requests reached this machine", reached.Load())
	}
	// What the config permits stays reachable while nobody serves the port inside.
	allowed := guard(t, egress.Policy{Allow: []string{"127.0.0.1:" + port}})
	conn, err := allowed.WithLocal(&flicker{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := (&egress.Guard{}).WithLocal(&flicker{}).DialContext(t.Context(), "tcp", address); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Error(err)
	}
}

// serving is a local server on one port.
type serving struct{ flicker }

func (*serving) Serves(port uint16) bool { return port == 8081 }

func TestOnlyLoopbackNamesALocalServer(t *testing.T) {
	t.Parallel()
	g := (&egress.Guard{}).WithLocal(&serving{})
	for address, local := range map[string]bool{
		"http://localhost:8081/": true, "http://127.0.0.1:8081/": true, "http://[::1]:8081/": true, "http://127.0.0.1:8082/": false,
		"http://127.0.0.2:8081/": false, "http://10.0.0.1:8081/": false, "http://[::]:8081/": false, "http://example.com:8081/": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.IsLocal(u); got != local {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestAServerThatDoesNotListenYetIsToBeWaitedFor(t *testing.T) {
	t.Parallel()
	resolver, _ := dnstest.Serve(t, map[string][]string{"here.example": {"127.0.0.1"}})
	if err := guard(t, egress.Policy{Resolver: resolver}).WithLocal(&serving{}).CheckURL(t.Context(), "http://here.example:8081/"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("a name that DNS says is loopback: %v", err)
	}
	g := (&egress.Guard{}).WithLocal(&serving{})
	for address, waits := range map[string]bool{"http://localhost:8082/": true, "http://[::1]:8082/": true, "http://127.0.0.2:8082/": false, "http://10.0.0.1:8082/": false} {
		e := toolroom.AsError(g.CheckURL(t.Context(), address))
		if e.Code != toolroom.CodeDenied || strings.Contains(e.Message, "no process of yours listens on port 8082") != waits || strings.Contains(e.Hint, "try again") != waits {
			t.Errorf("%s: %v; %s", address, e, e.Hint)
		}
	}
}
