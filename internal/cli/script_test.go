package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/guest"
)

func TestMain(m *testing.M) {
	// Inside a sandbox the binary has another name, by which testscript does not
	// know it.
	if len(os.Args) > 1 && os.Args[1] == guest.MainArg {
		os.Exit(guest.Main(os.Args[2:]))
	}
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"toolroom": toolroomMain})
}

// TestScripts runs testdata/script. The scripts have, beside what testscript
// offers:
//
//	exits CODE COMMAND…           the command ends with just this exit code
//	until REGEXP COMMAND…         repeat the command until its stdout matches
//	capture NAME REGEXP           set a variable to the first group of a match in stdout
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "user"))
			e.Setenv("TOOLROOM_HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv(enginetest.CompiledEnv, os.Getenv(enginetest.CompiledEnv))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "capture": capture,
		},
	})
}

// toolroomMain is toolroom with some tools written in Go.
func toolroomMain() {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	p := cli.Program{
		Guest: app.Guest{Path: self, Args: []string{guest.MainArg}},
		In:    os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Home:        os.Getenv("TOOLROOM_HOME"),
		Config:      os.Getenv("TOOLROOM_CONFIG"),
		Dir:         dir,
		UserConfig:  filepath.Join(os.Getenv("HOME"), ".config"),
		UserHome:    os.Getenv("HOME"),
		User:        "ann",
		Editor:      os.Getenv("EDITOR"),
		ReleasesURL: os.Getenv("TOOLROOM_RELEASES_URL"),
		Self:        self,
		Version:     cmp.Or(os.Getenv("VERSION"), "1.2.3"),
		Open:        openWithTools,
		Quiet:       os.Getenv("TOOLROOM_QUIET") != "0",
	}
	if os.Getenv("HELPER") != "" { // the engine js, which takes its time to start
		p.Helper = self
		if shared := os.Getenv(enginetest.CompiledEnv); shared != "" {
			if err := enginetest.ShareCompiled(p.Home, shared); err != nil {
				panic(err)
			}
		}
	}
	if os.Getenv("PROMPT") == "tty" {
		if p.Err, err = os.OpenFile("/dev/tty", os.O_RDWR, 0); err != nil {
			panic(err)
		}
	}
	os.Exit(p.Run(ctx, os.Args[1:]))
}

func openWithTools(ctx context.Context, o app.Options) (*app.App, error) {
	r, err := app.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	yes := true
	reads := toolroom.Hints{ReadOnly: &yes}
	type text struct {
		Text string `json:"text" jsonschema:"what to write"`
	}
	err = errors.Join(
		app.RegisterTool(r, toolroom.Tool{ID: toolroom.MustParseID("demo:greet"), Description: "Greet somebody by name.", Hints: reads}, greet),
		app.Register(r, "demo:add", "Add two whole numbers.", func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil }),
		app.Register(r, "demo:double", "Double the previous number.", func(_ context.Context, in struct {
			Previous int `json:"previous"`
		},
		) (int, error) {
			return 2 * in.Previous, nil
		}),
		app.Register(r, "demo:fail", "Fail always.", func(context.Context, struct{}) (string, error) { return "", errors.New("the well is dry") }),
		app.Register(r, "demo:write", "Write a text somewhere.", func(_ context.Context, in text) (string, error) { return "wrote " + in.Text, nil }),
		app.Register(r, "demo:echo", "Give the text back.", func(_ context.Context, in text) (string, error) { return in.Text, nil }),
		app.Register(r, "demo:lines", "Give many lines of text.", lines),
		app.Register(r, "demo:wait", "Wait until the call ends.", func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}),
		app.Register(r, "demo:count", "Count in steps, and tell each.", countUp),
	)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func greet(_ context.Context, in struct {
	Name  string   `json:"name" jsonschema:"who is greeted"`
	Times int      `json:"times,omitempty"`
	Tags  []string `json:"tags,omitempty"`
},
) (string, error) {
	return strings.Repeat("hello ", max(in.Times, 1)) + in.Name + strings.Join(in.Tags, ","), nil
}

func lines(_ context.Context, in struct {
	N int `json:"n"`
},
) (string, error) {
	var b strings.Builder
	for i := range in.N {
		fmt.Fprintf(&b, "this is line %d\n", i+1)
	}
	return b.String(), nil
}

func countUp(ctx context.Context, in struct {
	To int `json:"to"`
},
) (int, error) {
	for i := range in.To {
		app.Progress(ctx, float64(i+1), float64(in.To), "counting")
		if err := app.Chunk(ctx, fmt.Sprintf("step %d\n", i+1)); err != nil {
			return 0, err
		}
	}
	return in.To, nil
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("%s ended with exit code %d, want %d", strings.Join(args[1:], " "), code, want)
	}
}

// untilLimit is how long until goes on; a script that needs it fails slowly.
const untilLimit = 90 * time.Second

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND…")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(untilLimit); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s did not print %q in time: %v", strings.Join(args[1:], " "), args[0], err)
		}
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("stdout has no match of %q", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// brokenPipe is a stdout whose reader has left.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestAReaderThatLeavesEndsTheCommandWithoutAWord(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	p := cli.Program{In: strings.NewReader(""), Out: brokenPipe{}, Err: &stderr, Home: t.TempDir(), Dir: t.TempDir(), Open: openWithTools}
	// Following receipts has no end of its own.
	for _, args := range [][]string{{"tools"}, {"call", "demo:echo", "text=x"}, {"calls", "--follow"}} {
		if code := p.Run(t.Context(), args); code != toolroom.ExitOK || stderr.Len() > 0 {
			t.Errorf("%v: exit code %d, stderr %q", args, code, &stderr)
		}
	}
}
