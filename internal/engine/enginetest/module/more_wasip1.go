package main

import (
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

func rand(b []byte) (int, error) { return crypto.Read(b) }

// caught catches the error of a tool.
func caught([]string) error {
	return withJob(func(job *bridge.Job) (bridge.Value, error) {
		_, err := job.Call(context.Background(), "fail:always", nil)
		var failed *toolroom.Error
		if !errors.As(err, &failed) {
			return nil, fmt.Errorf("it is no error of a tool: %w", err)
		}
		return []bridge.Value{string(failed.Code), string(failed.Phase), failed.Tool, failed.Retryable, failed.Hint}, nil
	})
}

// calls makes n calls in sequence, or endlessly many if n is negative.
func calls(args []string) error {
	return withJob(func(job *bridge.Job) (bridge.Value, error) {
		for n, end := 0, number(args); n != end; n++ {
			_, err := job.Call(context.Background(), "echo:value", bridge.Map{{Key: "value", Value: int64(n)}})
			if err != nil && end >= 0 {
				return nil, err
			}
		}
		return int64(number(args)), nil
	})
}

// sums adds one to n numbers with calls, and returns their sum.
func sums(args []string) error {
	return withJob(func(job *bridge.Job) (bridge.Value, error) {
		var sum int64
		for n := range number(args) {
			v, err := job.Call(context.Background(), "math:add", bridge.Map{{Key: "a", Value: int64(n)}, {Key: "b", Value: int64(1)}})
			if err != nil {
				return nil, err
			}
			sum += v.(int64)
		}
		return sum, nil
	})
}

// A value that one run leaves in memory for another to find.
var (
	left  int
	place [8]byte
)

func findLeft([]string) error {
	return withJob(func(*bridge.Job) (bridge.Value, error) {
		files, _ := os.ReadDir("/")
		return []bridge.Value{left != 0, place[0] != 0, len(files) > 0, []bridge.Value{int64(1), int64(2)}}, nil
	})
}

// leak reports what it finds, and leaves the same.
func leak([]string) error {
	return withJob(func(*bridge.Job) (bridge.Value, error) {
		seen := ""
		if left != 0 || place[0] != 0 {
			seen += "a variable "
		}
		fresh := make([]byte, 1<<20) // of memory that may not have been cleared
		for _, b := range fresh {
			if b != 0 {
				seen += "memory "
				break
			}
		}
		if _, err := os.Stat("/tmp/leak"); err == nil {
			seen += "a file "
		}
		if os.Getenv("LEAK") != "" {
			seen += "the environment "
		}
		left = 1
		copy(place[:], "leak")
		for i := range fresh {
			fresh[i] = 1
		}
		_ = os.WriteFile("/tmp/leak", fresh[:1], 0o600)
		_ = os.Setenv("LEAK", "1")
		return seen, nil
	})
}

// system reports what it finds of the system, one thing per line.
func system([]string) error {
	say := func(what string, err error) {
		if err != nil {
			fmt.Println(what, "refused")
			return
		}
		fmt.Println(what, "DONE")
	}
	fmt.Println("arguments", strings.Join(os.Args, " "))
	fmt.Println("environment", len(os.Environ()))
	for _, path := range []string{"/", ".", "/etc/passwd", "/proc/self/environ", "../../etc/passwd"} {
		_, err := os.Open(path)
		say("open "+path, err)
	}
	say("write", os.WriteFile("/tmp/x", nil, 0o600))
	say("make a folder", os.Mkdir("x", 0o700))
	say("remove", os.Remove("/etc/passwd"))
	say("rename", os.Rename("/etc/passwd", "/etc/x"))
	say("link", os.Symlink("/etc/passwd", "x"))
	for fd := range uint32(6) {
		fmt.Println("descriptor", fd, sockAccept(fd, 0, 0), sockRecv(fd, 0, 0, 0, 0, 0), sockSend(fd, 0, 0, 0, 0), sockShutdown(fd, 3), pathOpen(fd, 0, 0, 0, 0, 0, 0, 0, 0))
	}
	for fd := range uintptr(64) {
		if fd <= bridge.Descriptor {
			continue
		}
		if _, err := os.NewFile(fd, "fd").Stat(); err == nil {
			fmt.Println("further descriptor", fd)
		}
	}
	if len(os.Args) > 2 {
		began := time.Now()
		time.Sleep(20 * time.Millisecond)
		fmt.Println("slept", time.Since(began) >= 20*time.Millisecond, began.UTC().Year())
	}
	return nil
}

// write writes bytes to the bridge, and then computes without end.
func write(data []byte) error {
	if _, err := os.NewFile(bridge.Descriptor, "bridge").Write(data); err != nil {
		return err
	}
	spin()
	return nil
}

// tellServer joins the run, sends frames with do, and then computes without end.
func tellServer(do func(*bridge.Job) error) error {
	job, err := bridge.Open(context.Background())
	if err != nil {
		return err
	}
	if err := do(job); err != nil {
		return err
	}
	spin()
	return nil
}

var question = bridge.Map{{Key: "tool", Value: "echo:value"}, {Key: "arguments", Value: bridge.Map{}}}

func ids([]string) error {
	return tellServer(func(job *bridge.Job) error {
		for _, id := range []uint64{7, 7, 7, 0, 1 << 40, 1 << 63} {
			if err := job.Send(bridge.Call, id, question); err != nil {
				return err
			}
		}
		return nil
	})
}

func unread([]string) error {
	return tellServer(func(job *bridge.Job) error {
		arguments := bridge.Map{{Key: "value", Value: strings.Repeat("x", 100_000)}}
		for id := uint64(1); ; id++ {
			if err := job.Send(bridge.Call, id, bridge.Map{{Key: "tool", Value: "echo:value"}, {Key: "arguments", Value: arguments}}); err != nil {
				return err
			}
		}
	})
}

// blockAfterEnd waits for ever after its last frame.
func blockAfterEnd([]string) error {
	return tellServer(func(job *bridge.Job) error {
		if err := job.Send(bridge.Done, 0, bridge.Map{{Key: "value", Value: int64(1)}}); err != nil {
			return err
		}
		<-job.Context().Done()
		return nil
	})
}

func sendAfterEnd([]string) error {
	return tellServer(func(job *bridge.Job) error {
		for range 3 {
			if err := job.Send(bridge.Done, 0, bridge.Map{{Key: "value", Value: int64(1)}}); err != nil {
				return err
			}
		}
		return nil
	})
}

//go:wasmimport wasi_snapshot_preview1 sock_accept
func sockAccept(fd, flags, out uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_recv
func sockRecv(fd, data, count, flags, size, out uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_send
func sockSend(fd, data, count, flags, size uint32) uint32

//go:wasmimport wasi_snapshot_preview1 sock_shutdown
func sockShutdown(fd, how uint32) uint32

//go:wasmimport wasi_snapshot_preview1 path_open
func pathOpen(fd, dirflags, path, size, oflags uint32, rights, inheriting uint64, flags, out uint32) uint32
