package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// NewDriver makes a driver from its settings, which are JSON.
type NewDriver func(settings json.RawMessage) (sandbox.Driver, error)

// ServeOptions configures what a program serves.
type ServeOptions struct {
	// Build is the program's build.
	Build string
	// Drivers makes the drivers, by name.
	Drivers map[string]NewDriver
	// Handlers serve paths that begin with a name and a slash.
	Handlers map[string]http.Handler
	// Log receives refused connections and ended sandboxes; nil discards it.
	Log *slog.Logger
}

// serveStopTimeout bounds the removal of the sandboxes at the end.
const serveStopTimeout = 25 * time.Second

// Serve listens on socket, says so on hello, and serves until ctx is done or lifeline ends,
// which means that the program that started this one has ended or no longer needs it. Then
// it removes all sandboxes.
func Serve(ctx context.Context, socket string, lifeline io.Reader, hello io.Writer, o ServeOptions) (err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	parent := os.Getppid()
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := &server{o: o, drivers: map[string]*driver{}}
	for name, make := range o.Drivers {
		s.drivers[name] = &driver{make: make, runner: remote.NewRunner(remote.RunnerOptions{Local: true, Log: o.Log})}
	}
	h := &http.Server{Handler: s.handler(), ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	serving := make(chan error, 1)
	go func() { serving <- h.Serve(&parentListener{l, parent, o.Log}) }()
	first, err := json.Marshal(Hello{Protocol: Protocol, Build: o.Build, Drivers: slices.Sorted(maps.Keys(o.Drivers))})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(hello, "%s\n", first); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	case err = <-serving:
	}
	h.Close()
	return errors.Join(err, s.close())
}

// parentListener is a listener that accepts connections from the parent process only.
type parentListener struct {
	net.Listener
	parent int
	log    *slog.Logger
}

func (g *parentListener) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := proc.CheckPeer(c, g.parent); err != nil {
			g.log.Warn("refused a connection", "error", err)
			c.Close()
			continue
		}
		return c, nil
	}
}

type server struct {
	o       ServeOptions
	drivers map[string]*driver
}

// driver is a driver with its sandboxes.
type driver struct {
	make   NewDriver
	runner *remote.Runner

	mu   sync.Mutex
	made sandbox.Driver // nil before it has settings
}

// close closes the driver.
func (d *driver) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.made.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for name, d := range s.drivers {
		mux.HandleFunc("PUT /"+name+remote.PathSettings, d.configure)
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, d.needSettings(d.runner.Handler())))
	}
	for name, h := range s.o.Handlers {
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, h))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		Fail(w, http.StatusNotFound, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "this program has no such driver; it has %s", slices.Sorted(maps.Keys(s.drivers))))
	})
	return mux
}

// configure makes the driver anew. Sandboxes of the old one go on.
func (d *driver) configure(w http.ResponseWriter, q *http.Request) {
	settings, err := io.ReadAll(http.MaxBytesReader(w, q.Body, remote.MaxBody))
	if err != nil {
		Fail(w, http.StatusBadRequest, toolroom.Errorf(toolroom.CodeInvalidArguments, "the settings cannot be read: %w", err))
		return
	}
	made, err := d.make(settings)
	if err != nil {
		Fail(w, http.StatusUnprocessableEntity, toolroom.AsError(err))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = made
	d.runner.SetDriver(made)
	w.WriteHeader(http.StatusNoContent)
}

func (d *driver) needSettings(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		d.mu.Lock()
		configured := d.made != nil
		d.mu.Unlock()
		if !configured {
			Fail(w, http.StatusConflict, toolroom.Errorf(toolroom.CodeConflict, "the driver has no settings yet: send them first"))
			return
		}
		next.ServeHTTP(w, q)
	})
}

// Fail answers with an error.
func Fail(w http.ResponseWriter, status int, e *toolroom.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(remote.Problem{Error: e, CLIHint: e.CLIHint}) // ignore clients that have gone
}

// close removes all sandboxes.
func (s *server) close() error {
	ctx, done := context.WithTimeout(context.Background(), serveStopTimeout)
	defer done()
	var mu sync.Mutex
	var errs []error
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var all sync.WaitGroup
		for _, d := range s.drivers {
			all.Go(func() {
				err := errors.Join(d.runner.Close(), d.close())
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		all.Wait()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		return fmt.Errorf("some sandboxes could not be removed within %s", serveStopTimeout)
	}
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(errs...)
}
