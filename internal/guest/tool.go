//go:build unix

package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// SocketEnv is the environment variable by which the command `tool` finds its guest.
const SocketEnv = "TOOLROOM_TOOL_SOCKET"

// serveTools lets commands call tools. It makes a socket in the work folder, and puts
// the command `tool` first on the search path.
func (r *run) serveTools(ctx context.Context) (io.Closer, []string, error) {
	bin := filepath.Join(r.work, ".bin")
	self, err := os.Executable()
	if err == nil {
		err = os.Mkdir(bin, 0o700)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the command tool: %w", err)
	}
	// A script instead of a link, because the guest may be part of a larger binary.
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s %s \"$@\"\n", quote(self), MainArg, ToolArg)
	if err := os.WriteFile(filepath.Join(bin, "tool"), []byte(script), 0o700); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(r.work, ".tool")
	listener, err := inFolder(path, net.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("open the socket of the command tool: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serveTool(ctx, conn)
		}
	}()
	return listener, []string{SocketEnv + "=" + path, "PATH=" + bin + ":" + os.Getenv("PATH")}, nil
}

// inFolder opens the socket at path from its folder, by its base name: the path of a
// socket is limited to 108 bytes, or 104 (unix(7)), and that of the folder may be
// longer. The guest and the command tool are processes of their own, so they may
// change their working folder.
func inFolder[T any](path string, open func(network, address string) (T, error)) (opened T, err error) {
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return opened, err
	}
	return open("unix", filepath.Base(path))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// serveTool answers the only request of a connection.
func (r *run) serveTool(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	w := bridge.NewWire(conn)
	f, _, err := w.Read()
	if err != nil {
		return
	}
	var body bridge.Map
	switch f.Kind {
	case bridge.Call, bridge.Search, bridge.Describe, bridge.Put, bridge.Get:
		body, err = r.request(ctx, f.Kind, f.Body)
	case bridge.Progress, bridge.Log:
		err = r.send(f.Kind, 0, f.Body)
	default:
		return
	}
	if err != nil {
		return // the end of the program closes the connection
	}
	_ = w.Write(bridge.Frame{Kind: bridge.Result, ID: f.ID, Body: body})
}

const toolUsage = `tool calls the tools of the room from a script.

  tool github:create_issue title="Bug fix" labels:='["bug"]'    key=text, key:=JSON
  tool github:create_issue '{"title": "Bug fix"}'               all arguments as JSON
  tool search "create an issue"
  tool describe github:create_issue
  tool progress 1 3 "one of three"
  tool log "a message" warning
  tool put report.txt text/plain < report.txt                  prints the handle
  tool get art_1 > report.txt

It prints text unchanged and everything else as JSON, and exits with 1 if the
tool failed.
`

// maxPut is the size of an artifact that fits into a frame.
const maxPut = bridge.MaxFrame - 4096

// CallTool is the command `tool` of scripts: it sends a request to its guest.
func CallTool(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		fmt.Fprint(stdout, toolUsage)
		return 0
	}
	kind, body, err := request(args)
	if err == nil && kind == bridge.Put {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(stdin, maxPut+1)); err == nil && len(data) > maxPut {
			fmt.Fprintf(stderr, "an artifact of more than %d bytes cannot be kept at once\n", maxPut)
			return 1
		}
		body = append(body, bridge.Member{Key: "data", Value: data})
	}
	if err != nil {
		fmt.Fprintf(stderr, "%v\n\n%s", err, toolUsage)
		return 2
	}
	for {
		answer, code := exchange(kind, body, stderr)
		if code != 0 || kind == bridge.Progress || kind == bridge.Log {
			return code
		}
		if kind != bridge.Get {
			return printValue(answer, stdout, stderr)
		}
		part, _ := answer.(bridge.Map)
		data, _ := part.Get("data").([]byte)
		if _, err := stdout.Write(data); err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
		offset := body.Int("offset") + int64(len(data))
		if len(data) == 0 || offset >= part.Int("size") {
			return 0
		}
		body = bridge.Map{body[0], {Key: "offset", Value: offset}, {Key: "length", Value: int64(0)}}
	}
}

// exchange sends a request to the guest and returns the value of the answer, or the exit
// code of the command if there is none.
func exchange(kind bridge.Kind, body bridge.Map, stderr io.Writer) (bridge.Value, int) {
	conn, err := inFolder(os.Getenv(SocketEnv), net.Dial)
	if err != nil {
		fmt.Fprintf(stderr, "cannot reach the guest (%v): the command tool works only inside a program run by Toolroom\n", err)
		return nil, 2
	}
	defer conn.Close()
	w := bridge.NewWire(conn)
	if err := w.Write(bridge.Frame{Kind: kind, ID: 1, Body: body}); err != nil {
		fmt.Fprintln(stderr, err)
		return nil, 2
	}
	answer, _, err := w.Read()
	if err != nil {
		fmt.Fprintln(stderr, "the run ended before the tool answered")
		return nil, 2
	}
	if failed, ok := answer.Body.Get("error").(bridge.Map); ok {
		// The last line is what a failed function shows, so it has all.
		message := fmt.Sprintf("%s [%s]", failed.Text("message"), failed.Text("code"))
		if hint := failed.Text("hint"); hint != "" {
			message += "; " + hint
		}
		fmt.Fprintln(stderr, message)
		return nil, 1
	}
	return answer.Body.Get("value"), 0
}

func printValue(v bridge.Value, stdout, stderr io.Writer) int {
	text, isText := v.(string)
	if handle, ok := v.(bridge.Handle); ok {
		text, isText = handle.ID, true
	}
	if !isText {
		value, err := bridge.ToJSON(v)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
		text = string(value)
	}
	fmt.Fprintln(stdout, text)
	return 0
}

func request(args []string) (bridge.Kind, bridge.Map, error) {
	switch {
	case len(args) == 0:
		return 0, nil, errors.New("no tool given")
	case args[0] == "search" && len(args) == 2:
		return bridge.Search, bridge.Map{{Key: "query", Value: args[1]}}, nil
	case args[0] == "describe" && len(args) == 2:
		return bridge.Describe, bridge.Map{{Key: "tool", Value: args[1]}}, nil
	case args[0] == "progress" && (len(args) == 3 || len(args) == 4):
		done, err := strconv.ParseFloat(args[1], 64)
		total, err2 := strconv.ParseFloat(args[2], 64)
		if err := errors.Join(err, err2); err != nil {
			return 0, nil, err
		}
		return bridge.Progress, bridge.Map{{Key: "done", Value: done}, {Key: "total", Value: total}, {Key: "message", Value: at(args, 3)}}, nil
	case args[0] == "log" && (len(args) == 2 || len(args) == 3):
		return bridge.Log, bridge.Map{{Key: "level", Value: cmp.Or(at(args, 2), "info")}, {Key: "message", Value: args[1]}, {Key: "fields", Value: bridge.Map{}}}, nil
	case args[0] == "put" && (len(args) == 2 || len(args) == 3):
		return bridge.Put, bridge.Map{{Key: "name", Value: args[1]}, {Key: "media_type", Value: at(args, 2)}}, nil
	case args[0] == "get" && len(args) == 2:
		return bridge.Get, bridge.Map{{Key: "handle", Value: args[1]}, {Key: "offset", Value: int64(0)}, {Key: "length", Value: int64(0)}}, nil
	}
	arguments := bridge.Map{}
	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "{") && len(args) == 2 {
			v, err := bridge.FromJSON(json.RawMessage(arg))
			m, ok := v.(bridge.Map)
			if err != nil {
				return 0, nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
			}
			if !ok {
				return 0, nil, errors.New("the arguments are not a JSON object")
			}
			arguments = m
			break
		}
		key, text, ok := strings.Cut(arg, "=")
		var value bridge.Value = text
		if name, isJSON := strings.CutSuffix(key, ":"); isJSON {
			v, err := bridge.FromJSON(json.RawMessage(text))
			if err != nil {
				return 0, nil, fmt.Errorf("%s: %w", arg, err)
			}
			key, value = name, v
		}
		if !ok || key == "" {
			return 0, nil, fmt.Errorf("%q is neither key=text nor key:=JSON", arg)
		}
		arguments = append(arguments, bridge.Member{Key: key, Value: value})
	}
	return bridge.Call, bridge.Map{{Key: "tool", Value: args[0]}, {Key: "arguments", Value: arguments}}, nil
}

// at returns an argument, or "" if it is not there.
func at(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}
