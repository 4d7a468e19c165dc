package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
)

// program starts the proxy of a program and returns its address, the hosts that it has
// refused, and a function that ends the program.
func program(t *testing.T, g *egress.Guard, log *slog.Logger) (address string, refused func() []string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var hosts []string
	done := make(chan struct{})
	end = sync.OnceFunc(func() { close(done) })
	t.Cleanup(end)
	egress.ServeProxy(listener, g, log, func(host string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if toolroom.CodeOf(err) == toolroom.CodeDenied {
			hosts = append(hosts, host)
		}
	}, done)
	return listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return hosts
	}, end
}

// lockedText is a text that several goroutines use.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func through(proxy string) *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy}), DisableKeepAlives: true}}
}

func TestAProgramsProxyReachesWhatTheGuardPermits(t *testing.T) {
	t.Parallel()
	s, reached := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Host+" "+string(body))
	})
	log := &lockedText{}
	proxy, refused, _ := program(t, guard(t, egress.Policy{Allow: []string{"127.0.0.1"}}), slog.New(slog.NewTextHandler(log, nil)))
	response, err := through(proxy).Post(s.URL+"/x", "text/plain", strings.NewReader("sent"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if want := strings.TrimPrefix(s.URL, "http://") + " sent"; string(body) != want || reached.Load() != 1 {
		t.Errorf("%d, %q, want %q", response.StatusCode, body, want)
	}

	response, err = through(proxy).Get("http://10.0.0.1:81/x")
	if err != nil {
		t.Fatal(err)
	}
	body, _ = io.ReadAll(response.Body)
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "private address") {
		t.Errorf("%d, %q", response.StatusCode, body)
	}
	if got := refused(); len(got) != 1 || got[0] != "10.0.0.1:81" {
		t.Errorf("refused: %v", got)
	}
	if !strings.Contains(log.String(), "10.0.0.1:81") {
		t.Errorf("the log has %q", log.String())
	}

	// Nothing listens there: the guard has not refused it.
	const gone = "http://127.0.0.1:1" // a closed server's port may be another test's a moment later
	response, err = through(proxy).Get(gone)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadGateway || len(refused()) != 1 {
		t.Errorf("%d, refused: %v", response.StatusCode, refused())
	}
	// A request to the proxy itself.
	response, err = http.Get("http://" + proxy + "/x")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", response.StatusCode)
	}
}

func TestAProgramsProxyNeedsNoLogAndNoCallback(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	defer close(done)
	egress.ServeProxy(listener, &egress.Guard{}, nil, nil, done)
	response, err := through(listener.Addr().String()).Get("http://10.0.0.1/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("%d", response.StatusCode)
	}
}

// connectTo asks a proxy for a tunnel.
func connectTo(t *testing.T, proxy, address string) (*net.TCPConn, *bufio.Reader, int) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_, _ = io.WriteString(conn, "CONNECT "+address+" HTTP/1.1\r\nHost: "+address+"\r\n\r\nearly")
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn), r, response.StatusCode
}

func TestATunnelOfAProgramEndsOneDirectionAtATime(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		got, _ := io.ReadAll(conn) // until the program has ended its direction
		_, _ = io.WriteString(conn, "got "+string(got))
	}()
	proxy, refused, _ := program(t, guard(t, egress.Policy{Allow: []string{"loopback"}}), nil)
	conn, r, status := connectTo(t, proxy, listener.Addr().String())
	if status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	_, _ = io.WriteString(conn, " and late")
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(r); string(got) != "got early and late" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, _, status := connectTo(t, proxy, "10.0.0.1:443"); status != http.StatusForbidden {
		t.Errorf("%d", status)
	}
	if got := refused(); len(got) != 1 || got[0] != "10.0.0.1:443" {
		t.Errorf("refused: %v", got)
	}
}

func TestATunnelOfAProgramIsOpenUntilBothSidesHaveEnded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	late := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).CloseWrite() // the peer has nothing to say
		got, _ := io.ReadAll(conn)
		late <- string(got)
	}()
	proxy, _, _ := program(t, guard(t, egress.Policy{Allow: []string{"loopback"}}), nil)
	conn, r, status := connectTo(t, proxy, listener.Addr().String())
	if status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	if got, err := io.ReadAll(r); len(got) != 0 || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	_, _ = io.WriteString(conn, " and late")
	_ = conn.CloseWrite()
	if got := <-late; got != "early and late" {
		t.Errorf("%q", got)
	}
}

func TestAProgramsProxyEndsWithIt(t *testing.T) {
	t.Parallel()
	idle, closed := make(chan struct{}, 1), make(chan struct{}, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateIdle:
			idle <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	proxy, _, end := program(t, guard(t, egress.Policy{Allow: []string{"loopback"}}), nil)
	response, err := through(proxy).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	<-idle
	end()
	<-closed
	for {
		conn, err := net.Dial("tcp", proxy)
		if err != nil {
			break
		}
		conn.Close()
	}
}

func TestTheTunnelsOfAProgramEndWithIt(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	far := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, err = io.Copy(io.Discard, conn)
		}
		far <- err
	}()
	proxy, _, end := program(t, guard(t, egress.Policy{Allow: []string{"loopback"}}), nil)
	_, r, status := connectTo(t, proxy, listener.Addr().String())
	if status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	end()
	if got, _ := io.ReadAll(r); len(got) != 0 {
		t.Errorf("%q", got)
	}
	<-far
}

func TestATunnelOutlivesTheContextThatOpenedIt(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if strings.HasPrefix(r.Host, "refused.example:") {
			_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
		} else {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		}
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				break
			}
			_, _ = io.WriteString(conn, line)
		}
		ended <- struct{}{}
	}))
	t.Cleanup(proxy.Close)
	g := guard(t, egress.Policy{Proxy: proxy.URL, Resolver: &net.Resolver{PreferGo: true, Dial: nowhere}})
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := g.Tunnel(ctx, "far.example:443")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	r := bufio.NewReader(conn)
	for range 200 { // time enough for whoever would close it
		_, _ = io.WriteString(conn, "later\n")
		if got, err := r.ReadString('\n'); got != "later\n" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	conn.Close()
	<-ended
	if _, err := g.Tunnel(t.Context(), "refused.example:443"); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
		t.Error(err)
	}
	<-ended // the connection has been closed
}

func TestWhatAServerSaysFirstIsReadThroughAProxy(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n220 ready\r\n")
		sent, _ := io.ReadAll(rw) // until the other side ends its direction
		_, _ = io.WriteString(conn, "got "+string(sent))
	}))
	t.Cleanup(proxy.Close)
	g := guard(t, egress.Policy{Proxy: proxy.URL, Resolver: &net.Resolver{PreferGo: true, Dial: nowhere}})
	conn, err := g.Tunnel(t.Context(), "far.example:25")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "QUIT")
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "220 ready\r\ngot QUIT" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestATunnelGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // a proxy that takes the request and never answers
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = bufio.NewReader(conn).ReadString('\n')
		cancel()
	}()
	g := guard(t, egress.Policy{Proxy: "http://" + listener.Addr().String()})
	if _, err := g.Tunnel(ctx, "93.184.216.34:443"); err == nil {
		t.Error("a proxy that says nothing has opened a tunnel")
	}
	listener.Close()
	if _, err := g.Tunnel(t.Context(), "93.184.216.34:443"); err == nil {
		t.Error("a proxy that is not there has opened a tunnel")
	}
}

func TestATunnelThroughAProxyChecksWhatTheNameIs(t *testing.T) {
	t.Parallel()
	proxy, proxied := service(t, nil)
	g := guard(t, egress.Policy{Proxy: proxy.URL, Deny: []string{"public"}, Resolver: &net.Resolver{PreferGo: true, Dial: nowhere}})
	if _, err := g.Tunnel(t.Context(), "far.example:443"); toolroom.CodeOf(err) != toolroom.CodeDenied || proxied.Load() != 0 {
		t.Errorf("%v; %d requests at the proxy", err, proxied.Load())
	}
}

func TestOnlyAnHTTPProxyCarriesTunnels(t *testing.T) {
	t.Parallel()
	g := guard(t, egress.Policy{Proxy: "socks5://127.0.0.1"})
	if _, err := g.Tunnel(t.Context(), "93.184.216.34:443"); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Error(err)
	}
	// The request to an https proxy, which may have a password, goes over TLS only.
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a proxy of nobody has got a request") }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.StartTLS()
	t.Cleanup(s.Close)
	var wrong *tls.CertificateVerificationError
	if _, err := guard(t, egress.Policy{Proxy: s.URL}).Tunnel(t.Context(), "93.184.216.34:443"); !errors.As(err, &wrong) {
		t.Error(err)
	}
}

func TestAnUpgradedConnectionEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	}))
	t.Cleanup(s.Close)
	proxy, _, end := program(t, guard(t, egress.Policy{Allow: []string{"loopback"}}), nil)
	conn, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET "+s.URL+"/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", answer, err)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if c, err := r.ReadByte(); c != 'x' || err != nil {
		t.Fatalf("%q, %v", c, err)
	}
	end()
	if _, err := r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the program's end: %v", err)
	}
}
