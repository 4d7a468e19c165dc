package app

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// fakeServer is a server whose calls and whose end take as long as a test wants.
type fakeServer struct {
	server
	calls, end chan struct{}
	closed     bool
}

func (s *fakeServer) Notify(source.Events) {}

func (s *fakeServer) Call(context.Context, *source.Request) (*source.Output, error) {
	<-s.calls
	return &source.Output{}, nil
}

func (s *fakeServer) Close() error {
	<-s.end
	s.closed = true
	return nil
}

func open() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// ruledServers returns a server, those that it starts under rules, and the state of the files
// that the rules are about.
func ruledServers() (b *sandboxedServer, started *[]*fakeServer, files *string) {
	started, files = new([]*fakeServer), new(string)
	b = &sandboxedServer{
		sandboxedSource: &sandboxedSource{predictingSource{Source: &fakeServer{end: open()}}, &sandboxStarter{name: "s"}},
		enforced: func(_ context.Context, rules []toolroom.Effect) (enforcement, error) {
			return enforcement{rules: rules[0].Target, files: *files}, nil
		},
		newServer: func([]toolroom.Effect) server {
			s := &fakeServer{calls: open(), end: open()}
			*started = append(*started, s)
			return s
		},
	}
	return b, started, files
}

func under(rule string) *source.Request {
	return &source.Request{Forbidden: []toolroom.Effect{{Kind: toolroom.EffectFile, Target: rule}}}
}

// A server under rules that sees a file which it must not see ends, with its processes, and so
// it makes no server of another caller end.
func TestAServerUnderRulesEndsWhenAnotherTakesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, started, files := ruledServers()
		call := func(rule string) {
			t.Helper()
			if _, err := b.Call(t.Context(), under(rule)); err != nil {
				t.Error(err)
			}
		}
		call("other")
		for i := range maxServersWithRules + 1 {
			*files = strconv.Itoa(i)
			call("a")
			call("a")
		}
		synctest.Wait()
		all := *started
		if len(all) != maxServersWithRules+2 {
			t.Fatalf("%d servers were started", len(all))
		}
		for i, s := range all {
			if want := i > 0 && i < len(all)-1; s.closed != want {
				t.Errorf("server %d: closed %v", i, s.closed)
			}
		}

		last, done := all[len(all)-1], make(chan struct{})
		last.calls = make(chan struct{})
		go func() { call("a"); close(done) }()
		synctest.Wait()
		*files = "new"
		call("a")
		synctest.Wait()
		if last.closed {
			t.Error("it was closed while a call ran on it")
		}
		close(last.calls)
		<-done
		synctest.Wait()
		if !last.closed {
			t.Error("it was not closed after its last call")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestClosingASourceWaitsForEachOfItsServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, started, _ := ruledServers()
		end := make(chan struct{})
		for i := range maxServersWithRules + 1 {
			if _, err := b.Call(t.Context(), under(strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
			if i == 0 { // it must make room for the last one
				(*started)[0].end = end
			}
		}
		closed := make(chan struct{})
		go func() { _ = b.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close has returned before a server ended")
		default:
		}
		close(end)
		<-closed
		for i, s := range *started {
			if !s.closed {
				t.Errorf("server %d is open", i)
			}
		}
		if _, err := b.Call(t.Context(), under("0")); toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestTheHomeFolderIsNamedWithATilde(t *testing.T) {
	t.Parallel()
	a := &App{o: Options{Environ: []string{"HOME=/home/ann"}}}
	for path, want := range map[string]string{"~": "/home/ann", "~/": "/home/ann", "~/notes": "/home/ann/notes", "~bob": "~bob", "notes/~": "notes/~"} {
		if got := a.expandHome(path); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
