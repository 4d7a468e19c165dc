//go:build unix

package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// SocketEnv is the environment variable by which the command `tool` finds the
// guest that it belongs to.
const SocketEnv = "TOOLROOM_TOOL_SOCKET"

// serveTools lets commands call tools: a socket in the work folder, and the
// command `tool` in front of the search path.
func (r *run) serveTools(ctx context.Context) (io.Closer, []string, error) {
	bin := filepath.Join(r.work, ".bin")
	self, err := os.Executable()
	if err == nil {
		err = os.Mkdir(bin, 0o700)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the command tool: %w", err)
	}
	// A script and not a link: the guest may be part of a larger binary.
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

// inFolder opens the socket at path by its name alone, from its folder: the path
// of a socket has 108 bytes at most, or 104 (unix(7)), and that of a folder may
// be longer. The guest and the command tool are processes of their own, so
// their folder is theirs to choose.
func inFolder[T any](path string, open func(network, address string) (T, error)) (opened T, err error) {
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return opened, err
	}
	return open("unix", filepath.Base(path))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// serveTool answers the one question of a connection.
func (r *run) serveTool(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	w := bridge.NewWire(conn, 0)
	f, _, err := w.Read()
	if err != nil || f.Kind != bridge.Call && f.Kind != bridge.Search && f.Kind != bridge.Describe {
		return
	}
	body, err := r.ask(ctx, f.Kind, f.Body)
	if err != nil {
		return // the program's end closes the connection
	}
	_ = w.Write(bridge.Frame{Kind: bridge.Result, ID: f.ID, Body: body})
}

const toolUsage = `tool calls the tools of the room from a script.

  tool github:create_issue title="Bug fix" labels:='["bug"]'    key=text, key:=JSON
  tool github:create_issue '{"title": "Bug fix"}'               all arguments as JSON
  tool search "create an issue"
  tool describe github:create_issue

It prints text as it is and anything else as JSON, and exits with 1 when the
tool failed.
`

// CallTool is the command `tool` of scripts: it asks the guest that started it.
func CallTool(args []string, stdout, stderr io.Writer) int {
	kind, body, err := question(args)
	if err != nil {
		fmt.Fprintf(stderr, "%v\n\n%s", err, toolUsage)
		return 2
	}
	conn, err := inFolder(os.Getenv(SocketEnv), net.Dial)
	if err != nil {
		fmt.Fprintf(stderr, "no guest is there to ask (%v): tool works only inside a program that Toolroom runs\n", err)
		return 2
	}
	defer conn.Close()
	w := bridge.NewWire(conn, 0)
	if err := w.Write(bridge.Frame{Kind: kind, ID: 1, Body: body}); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	answer, _, err := w.Read()
	if err != nil {
		fmt.Fprintln(stderr, "the run ended before the tool answered")
		return 2
	}
	if failed, ok := answer.Body.Get("error").(bridge.Map); ok {
		fmt.Fprintf(stderr, "%s [%s]\n", failed.Text("message"), failed.Text("code"))
		if hint := failed.Text("hint"); hint != "" {
			fmt.Fprintln(stderr, hint)
		}
		return 1
	}
	text, isText := answer.Body.Get("value").(string)
	if !isText {
		value, err := bridge.ToJSON(answer.Body.Get("value"))
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 2
		}
		text = string(value)
	}
	fmt.Fprintln(stdout, text)
	return 0
}

func question(args []string) (bridge.Kind, bridge.Map, error) {
	switch {
	case len(args) == 0:
		return 0, nil, errors.New("which tool?")
	case args[0] == "search" && len(args) == 2:
		return bridge.Search, bridge.Map{{Key: "query", Value: args[1]}}, nil
	case args[0] == "describe" && len(args) == 2:
		return bridge.Describe, bridge.Map{{Key: "tool", Value: args[1]}}, nil
	}
	arguments := bridge.Map{}
	for _, arg := range args[1:] {
		if strings.HasPrefix(arg, "{") && len(args) == 2 {
			v, err := bridge.FromJSON(json.RawMessage(arg))
			m, ok := v.(bridge.Map)
			if err != nil || !ok {
				return 0, nil, fmt.Errorf("the arguments are no JSON object: %w", err)
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
