// Command module contains the programs of enginetest for WebAssembly. The first
// argument names a program.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

func main() {
	program, ok := programs[os.Args[1]]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no program %q\n", os.Args[1])
		os.Exit(2)
	}
	if err := program(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var programs = map[string]func(args []string) error{
	"print":  printBoth,
	"exit":   func(args []string) error { os.Exit(number(args)); return nil },
	"copy":   func([]string) error { _, err := io.Copy(os.Stdout, os.Stdin); return err },
	"say":    func([]string) error { fmt.Println("here"); spin(); return nil },
	"system": system,
	"random": func([]string) error { fmt.Println(hex.EncodeToString(random())); return nil },
	"two":    value(int64(2)),
	"spin":   func([]string) error { spin(); return nil },
	"sleep":  func([]string) error { time.Sleep(1e9 * time.Second); return nil },
	"bomb":   func([]string) error { return bomb(1 << 20) },
	"bits":   func([]string) error { return bomb(16) },
	"huge":   func([]string) error { return bomb(1 << 31) },
	"flood":  flood,
	"value":  value(strings.Repeat("x", 20_000_000)),
	"call":   callTool,
	"seven":  func([]string) error { return call("echo:value", bridge.Map{{Key: "value", Value: int64(7)}}) },
	"add": func([]string) error {
		return call("math:add", bridge.Map{{Key: "a", Value: int64(40)}, {Key: "b", Value: int64(2)}})
	},
	"echo": echo,
	"inputs": func([]string) error {
		return withJob(func(job *bridge.Job) (bridge.Value, error) { return job.Program.Inputs, nil })
	},
	"meet":     meet,
	"caught":   caught,
	"calls":    calls,
	"sums":     sums,
	"leave":    func([]string) error { left = 1; copy(place[:], "left"); return nil },
	"look":     findLeft,
	"leak":     leak,
	"garbage":  func([]string) error { return write(bytes.Repeat([]byte{0xff}, 64)) },
	"token":    func([]string) error { return write([]byte{0, 0, 0, 9, 0x84, 0x18, 30, 0, 0x43, 1, 2, 3, 0xa0}) },
	"announce": func([]string) error { return write([]byte{0, 255, 255, 255}) },
	"result": func([]string) error {
		return tellServer(func(job *bridge.Job) error { return job.Send(bridge.Result, 0, nil) })
	},
	"ids":    ids,
	"unread": unread,
	"on":     sendAfterEnd,
	"rest":   blockAfterEnd,
	"bytes":  byBytes,
	"steal":  steal,
	"use":    use,
	"late":   late,
}

func spin() {
	for n := 0; ; n++ {
		sink = n
	}
}

var sink int

func number(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	return n
}

func printBoth([]string) error {
	fmt.Print("out 1\n")
	fmt.Fprint(os.Stderr, "error\n")
	fmt.Print("grüße\n")
	return nil
}

func random() []byte {
	b := make([]byte, 8)
	_, _ = rand(b)
	return b
}

func bomb(size int) error {
	var all [][]byte
	for {
		piece := make([]byte, size)
		for at := 0; at < size; at += 4096 {
			piece[at] = 1
		}
		all = append(all, piece)
		sink = len(all)
	}
}

func flood([]string) error {
	line := []byte(strings.Repeat("x", 10_000) + "\n")
	for {
		if _, err := os.Stdout.Write(line); err != nil {
			return err
		}
	}
}

// byBytes prints characters byte by byte, over some milliseconds.
func byBytes([]string) error {
	for range 5_000 {
		for _, b := range []byte("ü€🦜") {
			if _, err := os.Stdout.Write([]byte{b}); err != nil {
				return err
			}
		}
	}
	return nil
}

// withJob returns the result of a function of the run.
func withJob(do func(*bridge.Job) (bridge.Value, error)) error {
	job, err := bridge.Open(context.Background())
	if err != nil {
		return err
	}
	v, err := do(job)
	if err != nil {
		return err
	}
	return job.End(bridge.End{Value: v})
}

func value(v bridge.Value) func([]string) error {
	return func([]string) error {
		return withJob(func(*bridge.Job) (bridge.Value, error) { return v, nil })
	}
}

func call(tool string, arguments bridge.Map) error {
	return withJob(func(job *bridge.Job) (bridge.Value, error) { return job.Call(context.Background(), tool, arguments) })
}

// callTool calls a tool, with arguments that the program gets as JSON.
func callTool(args []string) error {
	var arguments bridge.Map
	if len(args) > 1 {
		value, err := bridge.FromJSON([]byte(args[1]))
		if err != nil {
			return err
		}
		arguments, _ = value.(bridge.Map)
	}
	return call(args[0], arguments)
}

func echo([]string) error {
	return withJob(func(job *bridge.Job) (bridge.Value, error) {
		return job.Call(context.Background(), "echo:value", bridge.Map{{Key: "value", Value: job.Program.Inputs.Get("given")}})
	})
}

// meet makes five calls at once.
func meet([]string) error {
	return withJob(func(job *bridge.Job) (bridge.Value, error) {
		met := make([]bridge.Value, 5)
		errs := make([]error, len(met))
		var wg sync.WaitGroup
		for i := range met {
			wg.Go(func() {
				met[i], errs[i] = job.Call(context.Background(), "slow:meet", bridge.Map{{Key: "count", Value: int64(len(met))}})
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return nil, err
			}
		}
		return met, nil
	})
}
