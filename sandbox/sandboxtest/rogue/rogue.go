// Package rogue implements a guest that breaks the rules: it crashes, floods or hangs at
// a chosen moment. It replaces the real guest in a sandbox; package sandboxtest judges
// the outcome of its run.
package rogue

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// Env is the environment variable that selects the guest's conduct.
const Env = "TOOLROOM_TEST_CONDUCT"

// The conducts.
const (
	Silent      = "silent"       // sends no hello
	Stillborn   = "stillborn"    // ends before its hello
	Crash       = "crash"        // ends in the middle of the run
	Shut        = "shut"         // closes its streams, and keeps running
	Garbage     = "garbage"      // sends bytes that are not a frame
	FloodOutput = "flood output" // prints without end
	FloodCalls  = "flood calls"  // calls tools without end, and reads no answer
	FloodStderr = "flood stderr" // writes Flooded bytes to stderr, and ends
	Hang        = "hang"         // does nothing, and ignores all signals that can be ignored
	Linger      = "linger"       // sends its result, and keeps running
)

// What a guest writes to stderr before it ends, its exit code, and the number of bytes
// that [FloodStderr] writes before.
const (
	LastWords = "the last words of the guest"
	Code      = 42
	Flooded   = 64 << 20
)

// Main is the main function of a binary that becomes a guest if its only argument is
// mainArg, or if it has none. Main does nothing and returns false if the environment
// selects no conduct, or if the arguments are others.
func Main(args []string, mainArg string) (code int, ok bool) {
	conduct := os.Getenv(Env)
	if conduct == "" || len(args) > 0 && !slices.Equal(args, []string{mainArg}) {
		return 0, false
	}
	switch conduct {
	case Silent:
		hang()
	case Stillborn:
		return end(), true
	}
	g := guest{wire: bridge.NewWire(struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout})}
	if err := g.join(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return g.run(conduct), true
}

// guest is a guest whose hello has been accepted.
type guest struct {
	wire  *bridge.Wire
	token []byte
}

// join sends the hello and waits for the program, which it ignores.
func (g *guest) join() error {
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: "rogue"}}
	if err := g.wire.Write(bridge.Frame{Kind: bridge.Hello, Body: hello}); err != nil {
		return err
	}
	start, _, err := g.wire.Read()
	g.token = start.Token
	return err
}

func (g *guest) run(conduct string) int {
	switch conduct {
	case Shut:
		os.Stdin.Close()
		os.Stdout.Close()
		hang()
	case Garbage:
		for block := bytes.Repeat([]byte("garbage "), 1000); ; {
			if _, err := os.Stdout.Write(block); err != nil {
				hang()
			}
		}
	case FloodOutput:
		text := string(bytes.Repeat([]byte("flood "), 10_000))
		g.forever(bridge.Print, bridge.Map{{Key: "stream", Value: "stdout"}, {Key: "text", Value: text}})
	case FloodCalls:
		g.forever(bridge.Call, bridge.Map{{Key: "tool", Value: "echo:value"}, {Key: "arguments", Value: bridge.Map{{Key: "value", Value: "again"}}}})
	case FloodStderr:
		block := bytes.Repeat([]byte("flood\n"), 10_000)
		for sent := 0; sent < Flooded; sent += len(block) {
			_, _ = os.Stderr.Write(block)
		}
	case Hang:
		signal.Ignore()
		hang()
	case Linger:
		signal.Ignore()
		_ = g.wire.Write(bridge.Frame{Kind: bridge.Done, Token: g.token, Body: bridge.Map{{Key: "value", Value: "done"}}})
		hang()
	}
	return end()
}

// forever sends a frame repeatedly.
func (g *guest) forever(kind bridge.Kind, body bridge.Map) {
	for id := uint64(1); ; id++ {
		if g.wire.Write(bridge.Frame{Kind: kind, ID: id, Token: g.token, Body: body}) != nil {
			hang()
		}
	}
}

// hang never returns. (Go would detect an empty select as a deadlock and exit.)
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func end() int {
	fmt.Fprintln(os.Stderr, LastWords)
	return Code
}
