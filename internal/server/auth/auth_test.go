package auth_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

func verify(_ context.Context, token string) (toolroom.Identity, error) {
	switch token {
	case "good":
		return toolroom.Identity{Subject: "ann", Agent: "fixed"}, nil
	case "bound":
		return toolroom.Identity{Subject: "bot", Provider: "ollama", Skill: "review"}, nil
	case "nobody":
		return toolroom.Identity{}, nil
	case "locked":
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeInternal, "the store is locked")
	}
	return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token is not known")
}

// whoami answers with the identity of the caller.
var whoami = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	json.NewEncoder(w).Encode(auth.Identity(r.Context()))
})

const (
	local  = "127.0.0.1:5000"
	remote = "192.0.2.7:5000"
)

func request(from string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:7070/api/v1/tools", nil)
	r.RemoteAddr = from
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r.WithContext(auth.WithPeer(r.Context(), "same"))
}

func serve(o auth.Options, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	auth.Middleware(o)(h).ServeHTTP(w, r)
	return w
}

func TestTheLoopbackAloneMakesNoOperator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, peer, method, path string
		required                 auth.Required
		status                   int
	}{
		{"the same user", "same", "POST", "/api/v1/sources", auth.Auto, 200},
		{"another user", "the connection comes from uid 33", "GET", "/api/v1/tools", auth.Auto, 401},
		{"another user, where all may call", "the connection comes from uid 33", "POST", "/api/v1/sources", auth.Never, 200},
		{"a system that does not tell", "unknown", "POST", "/api/v1/call", auth.Auto, 200},
		{"a system that does not tell, and what is read", "unknown", "GET", "/api/v1/sources", auth.Auto, 200},
		{"a system that does not tell, and a change", "unknown", "POST", "/api/v1/sources", auth.Auto, 401},
		{"a system that does not tell, and a change below", "unknown", "DELETE", "/api/v1/sources/x", auth.Auto, 401},
		{"a system that does not tell, and a name like it", "unknown", "POST", "/api/v1/sourcesx", auth.Auto, 200},
	} {
		r := httptest.NewRequest(c.method, "http://localhost:7070"+c.path, nil)
		r.RemoteAddr = local
		r = r.WithContext(auth.WithPeer(r.Context(), c.peer))
		w := serve(auth.Options{Required: c.required, Privileged: []string{"/api/v1/sources"}}, whoami, r)
		if w.Code != c.status {
			t.Errorf("%s: %d, not %d", c.name, w.Code, c.status)
		}
		if c.status == 401 && (!strings.Contains(w.Body.String(), "toolroom token create") || !strings.Contains(w.Body.String(), c.peer) && c.peer != "unknown") {
			t.Errorf("%s: the refusal does not say why and what to do: %s", c.name, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://localhost:7070/api/v1/tools", nil)
	r.RemoteAddr = local
	if w := serve(auth.Options{}, whoami, r); w.Code != 401 {
		t.Errorf("a server that looks at no connections: %d", w.Code)
	}
}

func TestWhoCalls(t *testing.T) {
	t.Parallel()
	operator, ann := toolroom.Identity{}, toolroom.Identity{Subject: "ann", Agent: "fixed"}
	for _, c := range []struct {
		name     string
		required auth.Required
		from     string
		headers  []string
		status   int
		who      toolroom.Identity
	}{
		{"this machine needs no token", auth.Auto, local, nil, 200, operator},
		{"the default is auto", "", local, nil, 200, operator},
		{"this machine over IPv6", auth.Auto, "[::1]:5000", nil, 200, operator},
		{"this machine as a mapped address", auth.Auto, "[::ffff:127.0.0.1]:5000", nil, 200, operator},
		{"somebody else needs one", auth.Auto, remote, nil, 401, operator},
		{"an address that cannot be read needs one", auth.Auto, "@", nil, 401, operator},
		{"a proxy on this machine is somebody else", auth.Auto, local, []string{"X-Forwarded-For", "127.0.0.1"}, 401, operator},
		{"a proxy that says so in the standard way", auth.Auto, local, []string{"Forwarded", "for=127.0.0.1"}, 401, operator},
		{"a good token from afar", auth.Auto, remote, []string{"Authorization", "Bearer good"}, 200, ann},
		{"the scheme in any case", auth.Auto, remote, []string{"Authorization", "bearer good"}, 200, ann},
		{"a good token from here", auth.Auto, local, []string{"Authorization", "Bearer good"}, 200, ann},
		{"a bad token from here is no operator", auth.Auto, local, []string{"Authorization", "Bearer bad"}, 401, operator},
		{"an empty token from here is no operator", auth.Auto, local, []string{"Authorization", "Bearer "}, 401, operator},
		{"another scheme from here is no operator", auth.Auto, local, []string{"Authorization", "Basic YTpi"}, 401, operator},
		{"an invalid token makes no operator", auth.Auto, local, []string{"Authorization", "Bearer nobody"}, 401, operator},
		{"a store that fails says nothing of the token", auth.Auto, remote, []string{"Authorization", "Bearer locked"}, 500, operator},
		{"a name that would fill the receipts", auth.Auto, local, []string{"Toolroom-Agent", strings.Repeat("a", 60_000)}, 422, operator},
		{"always means here too", auth.Always, local, nil, 401, operator},
		{"never requires no token", auth.Never, remote, nil, 200, operator},
		{"never still refuses a bad token", auth.Never, remote, []string{"Authorization", "Bearer bad"}, 401, operator},
		{
			"what a caller acts as", auth.Auto, local,
			[]string{"Toolroom-Agent", "fast", "Toolroom-Provider", "ollama", "Toolroom-Skill", "sums"},
			200,
			toolroom.Identity{Agent: "fast", Provider: "ollama", Skill: "sums"},
		},
		{
			"what a token says stays", auth.Auto, remote,
			[]string{"Authorization", "Bearer good", "Toolroom-Agent", "other", "Toolroom-Skill", "sums"},
			200,
			toolroom.Identity{Subject: "ann", Agent: "fixed", Skill: "sums"},
		},
		{
			"also of provider and skill", auth.Auto, remote,
			[]string{"Authorization", "Bearer bound", "Toolroom-Agent", "fast", "Toolroom-Provider", "other", "Toolroom-Skill", "other"},
			200,
			toolroom.Identity{Subject: "bot", Agent: "fast", Provider: "ollama", Skill: "review"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := serve(auth.Options{Verify: verify, Required: c.required}, whoami, request(c.from, c.headers...))
			if w.Code != c.status {
				t.Fatalf("the status is %d, not %d: %s", w.Code, c.status, w.Body)
			}
			if c.status != http.StatusOK {
				return
			}
			var who toolroom.Identity
			if err := json.Unmarshal(w.Body.Bytes(), &who); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.who, who); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestARefusalNamesTheChallengeWhereTokensAreToBeHadElsewhere(t *testing.T) {
	t.Parallel()
	o := auth.Options{Verify: verify, Challenge: func(string) string { return `Bearer resource_metadata="https://tools.example.com/"` }}
	var p toolroom.Error
	if err := json.Unmarshal(serve(o, whoami, request(remote)).Body.Bytes(), &p); err != nil || !strings.Contains(p.Hint, "WWW-Authenticate") {
		t.Errorf("the hint is %q, %v", p.Hint, err)
	}
}

func TestAnOpenPathNeedsNoToken(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]int{"/healthz": 200, "/healthz/": 401, "/api/v1/tools": 401} {
		r := request(remote)
		r.URL.Path = path
		if w := serve(auth.Options{Required: auth.Always, Open: []string{"/healthz"}}, whoami, r); w.Code != want {
			t.Errorf("%s: %d, not %d", path, w.Code, want)
		}
	}
}

func TestARefusalIsAChallengeAndAProblem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		token, challenge string
	}{
		{"", `Bearer realm="my \"room\""`},
		{"Bearer bad", `Bearer realm="my \"room\"", error="invalid_token", error_description="the token is not valid for this server"`},
	} {
		r := request(remote)
		if c.token != "" {
			r.Header.Set("Authorization", c.token)
		}
		w := serve(auth.Options{Verify: verify, Realm: `my "room"`}, whoami, r)
		if got := w.Header().Get("WWW-Authenticate"); got != c.challenge {
			t.Errorf("the challenge is %s", got)
		}
		var p toolroom.Error
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if p.Code != toolroom.CodeUnauthenticated || p.Hint == "" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("the body is %s", w.Body)
		}
	}
}

func TestWhoIsTrustedForBeingLocalHasNamedALocalHost(t *testing.T) {
	t.Parallel()
	hosts := map[string]bool{
		"localhost": true, "localhost:7070": true, "LOCALHOST:1": true, "127.0.0.1": true, "127.0.0.1:7070": true, "127.8.9.1:80": true,
		"[::1]": true, "[::1]:7070": true, "[::ffff:127.0.0.1]:7070": true, "tools.example.com": true, "tools.example.com:7070": true, "Named.Example": true,

		"": false, "evil.example": false, "evil.example:7070": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"localhost.": false, "127.0.0.1.": false, "::1": false, "[::1": false, "::1]": false, "[127.0.0.1]": false, "[localhost]": false,
		"localhost:": false, "localhost:x": false, "localhost:99999": false, "user@localhost": false, "localhost@evil.example": false,
		"localhost evil.example": false, "localhost/evil": false, "evil.example#localhost": false, "0.0.0.0:7070": false, "[::]:7070": false,
		"10.0.0.5:7070": false, "192.168.1.5": false, "169.254.169.254": false, "127.1": false, "2130706433": false, "0x7f000001": false,
		"[fe80::1%25lo]:7070": false, "sub.tools.example.com": false, "tools.example.com.": false, "null": false,
	}
	for _, listen := range []string{"127.0.0.1:7070", "localhost:7070", "[::1]:7070", "0.0.0.0:7070", "[::]:7070", ":7070", "192.168.1.5:7070", "@socket", ""} {
		for host, known := range hosts {
			for _, from := range []string{local, "[::1]:5000", "[::ffff:127.0.0.1]:5000", remote} {
				for _, token := range []string{"", "good", "bad"} {
					want := http.StatusOK
					switch {
					case token == "bad", token == "" && from == remote:
						want = http.StatusUnauthorized
					case token == "" && !known:
						want = http.StatusForbidden
					}
					r := request(from)
					if r.Host = host; token != "" {
						r.Header.Set("Authorization", "Bearer "+token)
					}
					o := auth.Options{Listen: listen, URL: "https://tools.example.com/base", Hosts: []string{"named.example"}, Verify: verify}
					if w := serve(o, whoami, r); w.Code != want {
						t.Errorf("on %q, host %q, from %s, token %q: %d, not %d", listen, host, from, token, w.Code, want)
					}
				}
			}
		}
	}
}

func TestWhereNobodyNeedsATokenNamesAreCheckedToo(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]int{
		"localhost:7070": 200, "192.168.1.5:7070": 200, "[fd00::5]:7070": 200, "tools:7070": 200, "listener:7070": 200,
		"evil.example:7070": 403, "192.168.1.5.evil.example": 403, "": 403,
	} {
		r := request(remote)
		r.Host = host
		if w := serve(auth.Options{Required: auth.Never, Listen: "listener:7070", Hosts: []string{"tools"}}, whoami, r); w.Code != want {
			t.Errorf("%q: %d, not %d", host, w.Code, want)
		}
	}
}

func TestPagesOfOtherOriginsAreKeptOut(t *testing.T) {
	t.Parallel()
	type header = map[string][]string
	for _, c := range []struct {
		name, host string
		header     header
		status     int
	}{
		{"a program", "127.0.0.1:7070", nil, 200},
		{"its own page", "localhost:7070", header{"Origin": {"http://localhost:7070"}}, 200},
		{"its own page, as new browsers tell", "localhost:7070", header{"Origin": {"http://localhost:7070"}, "Sec-Fetch-Site": {"same-origin"}}, 200},
		{"its own page in another case", "LocalHost:7070", header{"Origin": {"HTTP://localhost:7070"}}, 200},
		{"its own page on the port that is not written", "localhost:80", header{"Origin": {"http://localhost"}}, 200},
		{"its own page over IPv6", "[::1]:7070", header{"Origin": {"http://[::1]:7070"}}, 200},
		{"the page at the URL of the server, behind a proxy", "localhost:7070", header{"Origin": {"https://tools.example.com"}}, 200},
		{"a read of its own page", "localhost:7070", header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		{"an address that somebody has typed", "localhost:7070", header{"Sec-Fetch-Site": {"none"}}, 200},
		{"an allowed page", "localhost:7070", header{"Origin": {"https://app.example.com"}, "Sec-Fetch-Site": {"cross-site"}}, 200},
		{"an allowed page, with its port", "localhost:7070", header{"Origin": {"https://app.example.com:443"}}, 200},
		{"an allowed page of another kind", "localhost:7070", header{"Origin": {"app://notes"}, "Sec-Fetch-Site": {"cross-site"}}, 200},

		{"another page", "localhost:7070", header{"Origin": {"https://evil.example.com"}}, 403},
		{"a page on another port", "localhost:7070", header{"Origin": {"http://localhost:8080"}}, 403},
		{"a page on the usual port", "localhost:7070", header{"Origin": {"http://localhost"}}, 403},
		{"a page by another name of this machine", "localhost:7070", header{"Origin": {"http://127.0.0.1:7070"}}, 403},
		{"a page of another scheme", "localhost:7070", header{"Origin": {"https://localhost:7070"}}, 403},
		{"an allowed page of another scheme", "localhost:7070", header{"Origin": {"http://app.example.com"}}, 403},
		{"a script as an origin", "localhost:7070", header{"Origin": {"javascript://localhost:7070"}}, 403},
		{"a file as an origin", "localhost:7070", header{"Origin": {"file://"}}, 403},
		{"no scheme", "localhost:7070", header{"Origin": {"//localhost:7070"}}, 403},
		{"a path behind", "localhost:7070", header{"Origin": {"http://localhost:7070/"}}, 403},
		{"a user before", "localhost:7070", header{"Origin": {"http://evil@localhost:7070"}}, 403},
		{"a page without origin", "localhost:7070", header{"Origin": {"null"}}, 403},
		{"an empty origin", "localhost:7070", header{"Origin": {""}}, 403},
		{"two origins", "localhost:7070", header{"Origin": {"http://localhost:7070", "http://localhost:7070"}}, 403},
		{"the second origin is another", "localhost:7070", header{"Origin": {"http://localhost:7070", "https://evil.example.com"}}, 403},
		{"two origins in one", "localhost:7070", header{"Origin": {"http://localhost:7070 https://evil.example.com"}}, 403},
		{"a page of another site without origin", "localhost:7070", header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a page on another port without origin", "localhost:7070", header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"a frame of another site", "localhost:7070", header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"iframe"}}, 403},
		{"a link to the API", "localhost:7070", header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}, 403},
		{"redirected through another site", "localhost:7070", header{"Origin": {"http://localhost:7070"}, "Sec-Fetch-Site": {"cross-site"}}, 403},
		{"two sites", "localhost:7070", header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, 403},
		{"a site that is not known", "localhost:7070", header{"Sec-Fetch-Site": {"elsewhere"}}, 403},
		{"a name that was made to point here, and its page", "evil.example.com:7070", header{"Origin": {"http://evil.example.com:7070"}, "Sec-Fetch-Site": {"same-origin"}}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, listen := range []string{"127.0.0.1:7070", "0.0.0.0:7070", "[::]:7070"} {
				r := request(local)
				r.Host = c.host
				for name, values := range c.header {
					r.Header[name] = values
				}
				o := auth.Options{Listen: listen, URL: "https://tools.example.com/base", Origins: []string{"https://app.example.com", "app://notes"}}
				if w := serve(o, whoami, r); w.Code != c.status {
					t.Errorf("on %s the status is %d, not %d: %s", listen, w.Code, c.status, w.Body)
				}
			}
		})
	}
}

func TestOverTLSTheOwnOriginIsHTTPS(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]int{"https://localhost:7070": 200, "http://localhost:7070": 403} {
		r := request(local, "Origin", origin)
		r.Host, r.TLS = "localhost:7070", &tls.ConnectionState{}
		if w := serve(auth.Options{}, whoami, r); w.Code != want {
			t.Errorf("%s: %d, not %d", origin, w.Code, want)
		}
	}
}

func TestALinkLeadsToThePageAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/", 200}, {"HEAD", "/", 200}, {"POST", "/", 403}, {"GET", "/api/v1/calls", 403}, {"GET", "/metrics", 403}, {"GET", "//", 403}} {
		r := request(local, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		r.Method, r.URL.Path = c.method, c.path
		if w := serve(auth.Options{}, whoami, r); w.Code != c.status {
			t.Errorf("%s %s: %d, not %d", c.method, c.path, w.Code, c.status)
		}
	}
}

// Clients such as Python's read the answer only when all is sent.
func TestAClientThatSendsAllFirstReadsThatItsBodyIsTooLarge(t *testing.T) {
	t.Parallel()
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			problem.Write(w, err)
		}
	})
	s := httptest.NewServer(auth.Middleware(auth.Options{MaxBody: 1 << 10, Required: auth.Never})(read))
	t.Cleanup(s.Close)
	const size = 32 << 20
	for name, head := range map[string]string{
		"of a stated length": fmt.Sprintf("Content-Length: %d\r\n\r\n", size),
		"in chunks":          fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(append([]byte("POST / HTTP/1.1\r\nHost: "+s.Listener.Addr().String()+"\r\n"+head), make([]byte, size)...)); err != nil {
				t.Fatalf("the server stopped reading: %v", err)
			}
			if name == "in chunks" {
				io.WriteString(c, "\r\n0\r\n\r\n")
			}
			w, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || w.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%v, %v", w, err)
			}
		})
	}
}

// A client that stops in the middle of a body gets an answer, and holds its connection no
// longer than the limits of a body permit.
func TestAClientThatStopsSendingHoldsNoConnection(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			problem.Write(w, err)
		}
	})
	for name, tt := range map[string]struct {
		head         string
		sent, status int
		within       time.Duration
	}{
		"too large, at its beginning":     {"Content-Length: 2097152\r\n\r\n", 0, http.StatusRequestEntityTooLarge, 11 * time.Second},
		"too large, near its end":         {"Content-Length: 2097152\r\n\r\n", 2*limit - 1000, http.StatusRequestEntityTooLarge, 11 * time.Second},
		"too large by a little in chunks": {"Transfer-Encoding: chunked\r\n\r\n200000\r\n", limit + 1000, http.StatusRequestEntityTooLarge, 11 * time.Second},
		"too large by much in chunks":     {"Transfer-Encoding: chunked\r\n\r\n400000\r\n", 2 * limit, http.StatusRequestEntityTooLarge, 11 * time.Second},
		"small":                           {"Content-Length: 1000\r\n\r\n", 10, http.StatusRequestTimeout, 121 * time.Second},
		"small in chunks":                 {"Transfer-Encoding: chunked\r\n\r\n1000\r\n", 10, http.StatusRequestTimeout, 121 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, accepted := net.Pipe()
				l := listener{make(chan net.Conn, 1)}
				l.conns <- accepted
				s := auth.Server("", auth.Middleware(auth.Options{MaxBody: limit, Required: auth.Never})(read))
				go s.Serve(l)
				start := time.Now()
				go c.Write(append([]byte("POST / HTTP/1.1\r\nHost: localhost\r\n"+tt.head), make([]byte, tt.sent)...))
				c.SetReadDeadline(start.Add(time.Hour))
				in := bufio.NewReader(c)
				w, err := http.ReadResponse(in, nil)
				switch {
				case err != nil:
					t.Errorf("no answer after %v: %v", time.Since(start), err)
				case w.StatusCode != tt.status || w.ContentLength <= 0:
					t.Errorf("status %d, %d bytes", w.StatusCode, w.ContentLength)
				}
				if _, err := io.Copy(io.Discard, in); err != nil || time.Since(start) > tt.within {
					t.Errorf("the connection ended after %v: %v", time.Since(start), err)
				}
				c.Close()
				close(l.conns)
				s.Close()
			})
		})
	}
}

func TestTheAnswerToABodyTooLargeIsCompleteAtOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			problem.Write(w, err)
		}
	})
	s := httptest.NewUnstartedServer(auth.Middleware(auth.Options{MaxBody: 1 << 10, Required: auth.Never})(read))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	text := strings.Repeat("x", 8<<20)
	for name, body := range map[string]io.Reader{"of a stated length": strings.NewReader(text), "of another": io.MultiReader(strings.NewReader(text))} {
		start := time.Now()
		w, err := s.Client().Post(s.URL, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, w.Body)
		w.Body.Close()
		if took := time.Since(start); err != nil || w.StatusCode != http.StatusRequestEntityTooLarge || w.ProtoMajor != 2 || took > 8*time.Second {
			t.Errorf("%s: %s %s after %v: %v", name, w.Proto, w.Status, took, err)
		}
	}
}

// listener accepts the connections of a channel.
type listener struct{ conns chan net.Conn }

func (l listener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func TestABodyOverItsLimitIs413(t *testing.T) {
	t.Parallel()
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
		}
	})
	for name, c := range map[string]struct {
		body   io.Reader
		status int
	}{
		"within":                 {strings.NewReader("12345678"), 200},
		"over, and it says so":   {strings.NewReader("123456789"), 413},
		"over, without a length": {io.MultiReader(strings.NewReader("123456789")), http.StatusTeapot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "http://localhost/x", c.body)
			r.RemoteAddr = remote
			if w := serve(auth.Options{MaxBody: 8, Required: auth.Never}, read, r); w.Code != c.status {
				t.Errorf("the status is %d, not %d", w.Code, c.status)
			}
		})
	}
}

func TestAPanicIsAnAnswerWithTheNameOfTheRequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(auth.Middleware(auth.Options{Required: auth.Never})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			io.WriteString(w, "half an ans")
		}
		panic("boom")
	})))
	t.Cleanup(server.Close)
	res, err := http.Get(server.URL + "/early")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var p toolroom.Error
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	id := res.Header.Get("X-Request-Id")
	if res.StatusCode != http.StatusInternalServerError || p.Code != toolroom.CodeInternal || id == "" || !strings.Contains(p.Hint, id) || strings.Contains(p.Message, "boom") {
		t.Errorf("%d %+v", res.StatusCode, p)
	}

	res, err = http.Get(server.URL + "/late")
	if err == nil {
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
	}
	if err == nil {
		t.Error("half an answer looks like a whole one")
	}
}

func TestHandlersCanFlushAndFindTheirRequestID(t *testing.T) {
	t.Parallel()
	w := serve(auth.Options{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if auth.RequestID(r.Context()) != w.Header().Get("X-Request-Id") {
			t.Error("the request has another id than its answer")
		}
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}), request(local))
	if !w.Flushed {
		t.Error("nothing was flushed")
	}
}

// deadlines is a connection that notes its read deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	read []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func TestTheDeadlineOfABodyEndsWithTheBody(t *testing.T) {
	t.Parallel()
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/x", strings.NewReader("a body"))
	r.RemoteAddr = local
	auth.Middleware(auth.Options{Required: auth.Never})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.ReadAll(r.Body)
	})).ServeHTTP(w, r)
	if len(w.read) < 2 || w.read[0].IsZero() || !w.read[len(w.read)-1].IsZero() {
		t.Errorf("the deadlines were %v: one must be set before the body and none be left after it", w.read)
	}
}
