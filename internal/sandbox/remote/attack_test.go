package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

const (
	ann = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	bob = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// pipes is a driver whose guests are pipes, because these tests need no guest.
type pipes struct {
	mu      sync.Mutex
	started int
	alive   map[*pipe]bool
	deaf    bool // the guests read nothing
}

func (d *pipes) Name() string { return "pipes" }

func (d *pipes) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Available, Isolation: "pipe", Folders: true, Layers: true, Holds: map[sandbox.Limit]string{sandbox.LimitNetwork: "none"}}
}

func (d *pipes) Start(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started++
	host, guest := net.Pipe()
	p := &pipe{driver: d, Conn: host, done: make(chan struct{})}
	if !d.deaf {
		go io.Copy(guest, guest) // an echo
	}
	if d.alive == nil {
		d.alive = map[*pipe]bool{}
	}
	d.alive[p] = true
	return p, nil
}

func (d *pipes) counts() (started, alive int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.started, len(d.alive)
}

type pipe struct {
	net.Conn
	driver *pipes
	once   sync.Once
	done   chan struct{}
}

func (p *pipe) Stream() io.ReadWriteCloser { return p.Conn }

func (p *pipe) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.done:
		return sandbox.Exit{Code: 7}, nil
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

func (p *pipe) Kill(context.Context) error {
	p.once.Do(func() {
		close(p.done)
		p.Close()
		p.driver.mu.Lock()
		defer p.driver.mu.Unlock()
		delete(p.driver.alive, p)
	})
	return nil
}

func (p *pipe) Usage() sandbox.Usage           { return sandbox.Usage{PeakMemory: 42} }
func (p *pipe) Isolation() string              { return "pipe" }
func (p *pipe) Held() map[sandbox.Limit]string { return nil }

// measured is a driver whose sandboxes ask for their usage elsewhere, which takes until release
// is closed.
type measured struct {
	*pipes
	asked   chan struct{}
	release chan struct{}
}

func (d *measured) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	started, err := d.pipes.Start(ctx, s)
	return &slowUsage{started, d}, err
}

type slowUsage struct {
	sandbox.Sandbox
	driver *measured
}

func (b *slowUsage) Usage() sandbox.Usage {
	b.driver.asked <- struct{}{}
	<-b.driver.release
	return b.Sandbox.Usage()
}

func TestAStartDoesNotWaitForTheUsageOfAnotherSandbox(t *testing.T) {
	t.Parallel()
	d := &measured{&pipes{}, make(chan struct{}, 9), make(chan struct{})}
	r := remote.NewRunner(remote.RunnerOptions{Local: true, Driver: d})
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = r.Close() })
	t.Cleanup(func() { close(d.release) })
	x := &target{url: server.URL}
	for n, verb := range []string{http.MethodGet, http.MethodDelete} {
		if _, status, _ := x.start(t, ann, order(id(2*n))); status != http.StatusOK {
			t.Fatalf("an order was answered %d", status)
		}
		path := server.URL + remote.PathSandboxes + "/" + id(2*n)
		if verb == http.MethodGet {
			path += "/usage"
		}
		go func() {
			if answer, err := http.DefaultClient.Do(request(t, verb, path, nil)); err == nil {
				answer.Body.Close()
			}
		}()
		<-d.asked
		second := make(chan int, 1)
		go func() {
			_, status, _ := x.start(t, ann, order(id(2*n+1)))
			second <- status
		}()
		select {
		case status := <-second:
			if status != http.StatusOK {
				t.Errorf("an order was answered %d", status)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: no sandbox starts while the usage of another is asked for", verb)
		}
	}
}

// unprobed is a driver whose engine does not answer a probe.
type unprobed struct {
	*pipes
	probing chan struct{}
}

func (d *unprobed) Probe(ctx context.Context) sandbox.Probe {
	d.probing <- struct{}{}
	<-ctx.Done()
	return sandbox.Probe{State: sandbox.Inconclusive}
}

func TestARunnerThatStopsEndsItsProbe(t *testing.T) {
	t.Parallel()
	d := &unprobed{&pipes{}, make(chan struct{}, 1)}
	r := remote.NewRunner(remote.RunnerOptions{Driver: d, Keys: []remote.SigningKey{{Name: "ann", Secret: []byte(ann)}}})
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	x := &target{url: server.URL}
	status := make(chan int, 1)
	go func() {
		_, s, _ := x.start(t, ann, order(id(1)))
		status <- s
	}()
	<-d.probing
	begun := time.Now()
	if err := r.Close(); err != nil || time.Since(begun) > 10*time.Second {
		t.Errorf("after %s Close returned %v", time.Since(begun), err)
	}
	if s := <-status; s == http.StatusOK {
		t.Error("a sandbox was started without a probe")
	}
}

// quitter is a driver whose guests read nothing any more, but have output left when they are
// written to.
type quitter struct{ *pipes }

func (d *quitter) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	started, err := d.pipes.Start(ctx, s)
	out, in := io.Pipe()
	return &quitting{Sandbox: started, out: out, in: in}, err
}

type quitting struct {
	sandbox.Sandbox
	out *io.PipeReader
	in  *io.PipeWriter
}

func (b *quitting) Stream() io.ReadWriteCloser { return b }

func (b *quitting) Read(p []byte) (int, error) { return b.out.Read(p) }

func (b *quitting) Close() error { return b.out.Close() }

func (b *quitting) Write([]byte) (int, error) {
	go func() {
		for range 1000 {
			_, _ = b.in.Write([]byte("result"))
		}
		b.in.Close()
	}()
	return 0, syscall.EPIPE
}

func TestTheOutputOfAGuestThatReadsNoMoreIsWhole(t *testing.T) {
	t.Parallel()
	r := remote.NewRunner(remote.RunnerOptions{Driver: &quitter{&pipes{}}, Keys: []remote.SigningKey{{Name: "ann", Secret: []byte(ann)}}})
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = r.Close() })
	d := remote.New(remote.Options{URL: server.URL, Secret: func(context.Context) (string, error) { return ann, nil }})
	instance := startAttached(t, d)
	if _, err := instance.Stream().Write([]byte("alive?")); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(instance.Stream())
	if want := strings.Repeat("result", 1000); err != nil || string(got) != want {
		t.Errorf("%d of %d bytes arrived: %v", len(got), len(want), err)
	}
}

// target is a runner under attack.
type target struct {
	driver *pipes
	url    string
}

func newTarget(t *testing.T, o remote.RunnerOptions) *target {
	t.Helper()
	d := &pipes{}
	o.Driver, o.Keys = d, []remote.SigningKey{{Name: "ann", Secret: []byte(ann)}, {Name: "bob", Secret: []byte(bob)}}
	r := remote.NewRunner(o)
	server := httptest.NewServer(r.Handler())
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		if _, alive := d.counts(); alive > 0 {
			t.Errorf("%d sandboxes outlive their runner", alive)
		}
	})
	return &target{driver: d, url: server.URL}
}

// The driver of another machine shows folders of that machine, and an order has none of this
// one.
func TestFoldersAndPackagesOfThisMachineAreNotShownOnAnother(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{})
	d := remote.New(remote.Options{URL: target.url, Secret: func(context.Context) (string, error) { return ann, nil }})
	p := d.Probe(t.Context())
	for _, spec := range []sandbox.Spec{{Folders: []sandbox.Folder{{Source: "/srv"}}}, {Layer: "/srv/layer"}} {
		if err := sandbox.Check(d.Name(), p, spec); toolroom.CodeOf(err) != toolroom.CodeLimitNotEnforceable {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

func order(id string) []byte {
	data, _ := json.Marshal(remote.Order{ID: id})
	return data
}

func id(n int) string { return fmt.Sprintf("%032x", n) }

func request(t *testing.T, method, url string, body []byte) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends a request and returns the status and the problem.
func send(t *testing.T, r *http.Request) (int, remote.Problem) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p remote.Problem
	_ = json.Unmarshal(data, &p)
	return answer.StatusCode, p
}

func TestAForgedRequestStartsNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		name   string
		body   []byte
		forge  func(r *http.Request)
		status int
		reason remote.Reason
	}{
		{"without a signature", order(id(1)), func(*http.Request) {}, 401, remote.ReasonUnsigned},
		{"with a wrong secret", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(1)), []byte("wrong"), now) }, 401, remote.ReasonWrong},
		{"with an empty secret", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(1)), nil, now) }, 401, remote.ReasonWrong},
		{"signed six minutes ago", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(1)), []byte(ann), now.Add(-6*time.Minute)) }, 401, remote.ReasonSkewed},
		{"signed in six minutes", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(1)), []byte(ann), now.Add(6*time.Minute)) }, 401, remote.ReasonSkewed},
		{"stale, and of a wrong secret: the clock is not reported", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(1)), []byte("wrong"), now.Add(-time.Hour)) }, 401, remote.ReasonWrong},
		{"signed before the runner started", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(1)), []byte(ann), now.Add(-4*time.Minute)) }, 503, remote.ReasonEarly},
		{"with another body", order(id(1)), func(r *http.Request) { remote.Sign(r, order(id(2)), []byte(ann), time.Now()) }, 401, remote.ReasonWrong},
		{"signed for another path", order(id(1)), func(r *http.Request) {
			other := request(t, http.MethodPost, "http://x"+remote.PathProbe, nil)
			remote.Sign(other, order(id(1)), []byte(ann), time.Now())
			r.Header = other.Header
		}, 401, remote.ReasonWrong},
		{"signed for another query", order(id(1)), func(r *http.Request) {
			remote.Sign(r, order(id(1)), []byte(ann), time.Now())
			r.URL.RawQuery = "x=1"
		}, 401, remote.ReasonWrong},
		{"signed for another method", order(id(1)), func(r *http.Request) {
			other := request(t, http.MethodDelete, "http://x"+remote.PathSandboxes, nil)
			remote.Sign(other, order(id(1)), []byte(ann), time.Now())
			r.Header = other.Header
		}, 401, remote.ReasonWrong},
		{"with a newer time", order(id(1)), func(r *http.Request) {
			remote.Sign(r, order(id(1)), []byte(ann), now.Add(-6*time.Minute))
			r.Header.Set(remote.HeaderTimestamp, fmt.Sprint(time.Now().UnixMilli()))
		}, 401, remote.ReasonWrong},
		{"with another nonce", order(id(1)), func(r *http.Request) {
			remote.Sign(r, order(id(1)), []byte(ann), time.Now())
			r.Header.Set(remote.HeaderNonce, id(1))
		}, 401, remote.ReasonWrong},
		{"with a nonce that is too long", order(id(1)), func(r *http.Request) {
			remote.Sign(r, order(id(1)), []byte(ann), time.Now())
			r.Header.Set(remote.HeaderNonce, r.Header.Get(remote.HeaderNonce)+"00")
		}, 401, remote.ReasonUnsigned},
		{"with a part of the signature", order(id(1)), func(r *http.Request) {
			remote.Sign(r, order(id(1)), []byte(ann), time.Now())
			r.Header.Set(remote.HeaderSignature, r.Header.Get(remote.HeaderSignature)[:len("v1=")+8])
		}, 401, remote.ReasonWrong},
		{"longer than allowed", bytes.Repeat([]byte("x"), remote.MaxBody+1), func(r *http.Request) {}, 413, ""},
		{"longer than allowed, without a length", bytes.Repeat([]byte("x"), remote.MaxBody+1), func(r *http.Request) { r.ContentLength = -1 }, 413, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			target := newTarget(t, remote.RunnerOptions{})
			r := request(t, http.MethodPost, target.url+remote.PathSandboxes, tt.body)
			tt.forge(r)
			status, problem := send(t, r)
			if status != tt.status || problem.Reason != tt.reason || problem.Error == nil {
				t.Errorf("answered %d, %q, %v", status, problem.Reason, problem.Error)
			}
			if started, _ := target.driver.counts(); started != 0 {
				t.Error("the request started a sandbox")
			}
		})
	}
}

// start sends an order and returns the signed request, as an eavesdropper would have it.
func (x *target) start(t *testing.T, secret string, body []byte) (*http.Request, int, remote.Problem) {
	t.Helper()
	r := request(t, http.MethodPost, x.url+remote.PathSandboxes, body)
	remote.Sign(r, body, []byte(secret), time.Now())
	status, problem := send(t, r)
	return r, status, problem
}

func (x *target) ask(t *testing.T, secret, method, path string) (int, remote.Problem) {
	t.Helper()
	r := request(t, method, x.url+path, nil)
	remote.Sign(r, nil, []byte(secret), time.Now())
	return send(t, r)
}

func TestARecordedRequestIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{})
	recorded, status, problem := target.start(t, ann, order(id(1)))
	if status != http.StatusOK {
		t.Fatalf("answered %d: %v", status, problem.Error)
	}
	again := request(t, http.MethodPost, target.url+remote.PathSandboxes, order(id(1)))
	again.Header = recorded.Header
	if status, problem := send(t, again); status != http.StatusUnauthorized || problem.Reason != remote.ReasonReplayed {
		t.Errorf("the replay was answered %d, %q", status, problem.Reason)
	}
}

func TestARepeatedOrderStartsOneSandbox(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, status, problem := target.start(t, ann, order(id(1))); status != http.StatusOK {
				t.Errorf("answered %d: %v", status, problem.Error)
			}
		})
	}
	wg.Wait()
	if started, _ := target.driver.counts(); started != 1 {
		t.Errorf("%d sandboxes were started", started)
	}
	path := remote.PathSandboxes + "/" + id(1)
	for range 2 {
		if status, problem := target.ask(t, ann, http.MethodDelete, path); status != http.StatusOK {
			t.Errorf("its end was answered %d: %v", status, problem.Error)
		}
	}
	if _, status, _ := target.start(t, ann, order(id(1))); status != http.StatusConflict {
		t.Errorf("an order after the sandbox's end was answered %d", status)
	}
	// The end may arrive before the order.
	if status, _ := target.ask(t, ann, http.MethodDelete, remote.PathSandboxes+"/"+id(2)); status != http.StatusOK {
		t.Errorf("the end of a sandbox that was not ordered was answered %d", status)
	}
	if _, status, _ := target.start(t, ann, order(id(2))); status != http.StatusConflict {
		t.Errorf("an order after the sandbox's end was answered %d", status)
	}
	if started, alive := target.driver.counts(); started != 1 || alive != 0 {
		t.Errorf("%d sandboxes were started, %d are still alive", started, alive)
	}
}

func TestAClientSeesNothingOfAnothersSandboxes(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{})
	if _, status, problem := target.start(t, ann, order(id(1))); status != http.StatusOK {
		t.Fatalf("answered %d: %v", status, problem.Error)
	}
	path := remote.PathSandboxes + "/" + id(1)
	for _, what := range []string{"/stream", "/exit", "/usage"} {
		status, _ := target.ask(t, bob, http.MethodGet, path+what)
		unknown, _ := target.ask(t, bob, http.MethodGet, remote.PathSandboxes+"/"+id(9)+what)
		if status != http.StatusNotFound || unknown != status {
			t.Errorf("%s was answered %d, and %d for a sandbox that does not exist", what, status, unknown)
		}
	}
	target.ask(t, bob, http.MethodDelete, path)
	if _, alive := target.driver.counts(); alive != 1 {
		t.Error("one client ended the sandbox of another")
	}
	if _, status, _ := target.start(t, bob, order(id(3))); status != http.StatusOK {
		t.Errorf("an id that another client could use was answered %d", status)
	}
}

func TestAClientGetsNoMoreSandboxesThanItsShare(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{Most: 3, MostPerKey: 2})
	for i, tt := range []struct {
		secret string
		status int
	}{{ann, 200}, {ann, 200}, {ann, 429}, {bob, 200}, {bob, 429}} {
		if _, status, _ := target.start(t, tt.secret, order(id(i+1))); status != tt.status {
			t.Errorf("order %d was answered %d, want %d", i+1, status, tt.status)
		}
	}
	target.ask(t, ann, http.MethodDelete, remote.PathSandboxes+"/"+id(1))
	if _, status, _ := target.start(t, bob, order(id(9))); status != http.StatusOK {
		t.Errorf("an order after the end of another sandbox was answered %d", status)
	}
}

func TestAMalformedOrderIsRefused(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{})
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `{"id": "x"}`, `{"id": "../../../../../../etc/passwd/0000"}`,
		`{"id": "` + strings.Repeat("A", 32) + `"}`, `{"id": "` + id(1) + `", "limits": {"gpu": 1}}`,
		`{"id": "` + id(1) + `", "guest": "/bin/sh"}`, `{"id": "` + id(1) + `", "limits": {"memory": -1}}`,
		`{"id": "` + id(1) + `", "limits": {"memory": 1}}`, // the driver does not enforce it
	} {
		if _, status, problem := target.start(t, ann, []byte(body)); status != http.StatusUnprocessableEntity {
			t.Errorf("%q was answered %d: %v", body, status, problem.Error)
		}
	}
	if started, _ := target.driver.counts(); started != 0 {
		t.Errorf("%d sandboxes were started", started)
	}
}

func TestASandboxWithoutAClientIsEnded(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{Grace: 50 * time.Millisecond})
	d := remote.New(remote.Options{URL: target.url, Secret: func(context.Context) (string, error) { return ann, nil }})
	// One client never opens the stream, the other closes it.
	if _, status, _ := target.start(t, ann, order(id(1))); status != http.StatusOK {
		t.Fatal(status)
	}
	instance := startAttached(t, d)
	if _, err := instance.Stream().Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, 5)
	if _, err := io.ReadFull(instance.Stream(), back); err != nil || string(back) != "hello" {
		t.Fatalf("%q was echoed: %v", back, err)
	}
	instance.Stream().Close()
	exit, err := instance.Wait(t.Context())
	if err != nil || exit.Code != 7 {
		t.Errorf("the sandbox ended with %+v, %v", exit, err)
	}
	for _, alive := target.driver.counts(); alive > 0; _, alive = target.driver.counts() {
		time.Sleep(10 * time.Millisecond)
	}
	if err := instance.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	if used := instance.Usage(); used.PeakMemory != 42 {
		t.Errorf("the usage is %+v", used)
	}
}

// startAttached starts a sandbox and opens its stream. It starts another one if a busy machine
// took longer to open the stream than a sandbox of the test lives without it.
func startAttached(t *testing.T, d *remote.Driver) sandbox.Sandbox {
	t.Helper()
	for {
		instance, err := d.Start(t.Context(), sandbox.Spec{})
		if err == nil {
			return instance
		}
		if !strings.Contains(err.Error(), "has ended") {
			t.Fatal(err)
		}
	}
}

func TestAGuestThatReadsNothingEndsWithItsClient(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{Grace: 50 * time.Millisecond})
	target.driver.deaf = true
	d := remote.New(remote.Options{URL: target.url, Secret: func(context.Context) (string, error) { return ann, nil }})
	instance := startAttached(t, d)
	if _, err := instance.Stream().Write(make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	instance.Stream().Close()
	if _, err := instance.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASandboxHasAnEndEvenWithAClient(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{Lifetime: 50 * time.Millisecond})
	d := remote.New(remote.Options{URL: target.url, Secret: func(context.Context) (string, error) { return ann, nil }})
	instance := startAttached(t, d)
	if n, err := instance.Stream().Read(make([]byte, 1)); err == nil {
		t.Errorf("the stream returned %d bytes, want its end", n)
	}
}

func TestAStreamHasOneReader(t *testing.T) {
	t.Parallel()
	target := newTarget(t, remote.RunnerOptions{})
	d := remote.New(remote.Options{URL: target.url, Secret: func(context.Context) (string, error) { return ann, nil }})
	if _, status, _ := target.start(t, ann, order(id(1))); status != http.StatusOK {
		t.Fatal(status)
	}
	if status, _ := target.ask(t, ann, http.MethodGet, remote.PathSandboxes+"/"+id(1)+"/stream"); status != http.StatusUnprocessableEntity {
		t.Errorf("a request for a stream without an upgrade was answered %d", status)
	}
	instance, err := d.Start(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer instance.Kill(t.Context())
	if started, _ := target.driver.counts(); started != 2 {
		t.Errorf("%d sandboxes were started", started)
	}
}

func TestASlowClientHoldsOnlyItsOwnConnection(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- remote.Serve(ctx, "127.0.0.1:0", remote.RunnerOptions{Driver: &pipes{}, Keys: []remote.SigningKey{{Name: "ann", Secret: []byte(ann)}}}, func(a net.Addr) { address <- a })
	}()
	at := <-address
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/probe HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Error("a request whose headers never end keeps its connection")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestARunnerThatOtherMachinesReachRequiresTLS(t *testing.T) {
	t.Parallel()
	err := remote.Serve(t.Context(), "0.0.0.0:0", remote.RunnerOptions{Driver: &pipes{}}, func(net.Addr) { t.Error("the runner serves") })
	if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("Serve returned %v", err)
	}
}

// closing is a driver that says when it is closed.
type closing struct {
	*pipes
	closed chan struct{}
}

func (c *closing) Close() error {
	close(c.closed)
	return nil
}

func TestAFormerDriverIsClosedWithItsLastSandbox(t *testing.T) {
	t.Parallel()
	old := &closing{&pipes{}, make(chan struct{})}
	r := remote.NewRunner(remote.RunnerOptions{Local: true, Driver: old})
	server := httptest.NewServer(r.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = r.Close() })
	answer, err := http.Post(server.URL+remote.PathSandboxes, "application/json", bytes.NewReader(order(id(1))))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if started, alive := old.counts(); started != 1 || alive != 1 {
		t.Fatalf("%d sandboxes were started, %d live: %s", started, alive, answer.Status)
	}
	r.SetDriver(&pipes{})
	select {
	case <-old.closed:
		t.Fatal("the former driver is closed while its sandbox lives")
	case <-time.After(1500 * time.Millisecond): // three looks
	}
	end, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, server.URL+remote.PathSandboxes+"/"+id(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err = http.DefaultClient.Do(end); err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	select {
	case <-old.closed:
	case <-time.After(time.Minute):
		t.Error("the former driver is not closed")
	}
}
