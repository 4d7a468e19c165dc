// Command mcp-folder is a small MCP server on stdio over one folder, read-only.
// It shows how package mcp serves a program's own tools to clients of all revisions, and
// gives the demo and the tests a real server that needs nothing but Go.
//
//	toolroom sources add docs -- mcp-folder ./docs
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"
	"time"

	"github.com/toolroom/toolroom/mcp"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: mcp-folder FOLDER")
	}
	// A Root keeps every path inside the folder, even through links.
	root, err := os.OpenRoot(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server, err := newServer(root)
	if err == nil {
		err = server.Stdio(context.Background(), os.Stdin, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// definitions is the result of tools/list.
//
//go:embed tools.json
var definitions []byte

func newServer(root *os.Root) (*mcp.Server, error) {
	f := folder{root}
	tools := map[string]func(context.Context, json.RawMessage) (any, error){"list": f.list, "read": f.read, "grep": f.grep}
	return mcp.NewServer(mcp.ServerOptions{
		Name: "folder", Title: "Folder " + root.Name(), Version: "1",
		Capabilities: json.RawMessage(`{"tools":{}}`), DiscoverTTL: time.Hour,
		Handle: func(ctx context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
			switch r.Method {
			case "tools/list":
				return definitions, nil
			case "tools/call":
				tool := tools[r.Name]
				if tool == nil {
					return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", r.Name)}
				}
				return result(tool(ctx, r.Arguments))
			}
			return nil, mcp.MethodNotFound(r.Method)
		},
	})
}

// result converts the outcome of a tool to an MCP result. A failure is a result that the
// model can read.
func result(value any, failed error) (json.RawMessage, error) {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var out struct {
		Content    []text `json:"content"`
		Structured any    `json:"structuredContent,omitempty"`
		IsError    bool   `json:"isError,omitempty"`
	}
	switch value := value.(type) {
	case nil:
		out.IsError, out.Content = true, []text{{"text", failed.Error()}}
	case string:
		out.Content = []text{{"text", value}}
	default:
		data, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out.Structured, out.Content = value, []text{{"text", string(data)}}
	}
	return json.Marshal(out)
}

// read decodes the arguments of a tool, and rejects unknown ones.
func read(arguments json.RawMessage, into any) error {
	if len(arguments) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the arguments do not fit: %w", err)
	}
	return nil
}

type folder struct{ root *os.Root }

type entry struct {
	Name      string `json:"name"`
	Directory bool   `json:"directory,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
}

type listOutput struct {
	Entries []entry `json:"entries"`
	Next    string  `json:"next,omitempty"` // cursor of the next page
}

func (f folder) list(_ context.Context, arguments json.RawMessage) (any, error) {
	var in struct {
		Path   string `json:"path"`
		Limit  int    `json:"limit"`
		Cursor string `json:"cursor"`
	}
	if err := read(arguments, &in); err != nil {
		return nil, err
	}
	files, err := fs.ReadDir(f.root.FS(), clean(in.Path)) // in the order of their names
	if err != nil {
		return nil, err
	}
	out := listOutput{Entries: []entry{}}
	for _, file := range files {
		if file.Name() <= in.Cursor {
			continue
		}
		if in.Limit > 0 && len(out.Entries) == in.Limit {
			out.Next = out.Entries[in.Limit-1].Name
			break
		}
		e := entry{Name: file.Name(), Directory: file.IsDir()}
		if info, err := file.Info(); err == nil && !file.IsDir() {
			e.Bytes = info.Size()
		}
		out.Entries = append(out.Entries, e)
	}
	return out, nil
}

func (f folder) read(_ context.Context, arguments json.RawMessage) (any, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := read(arguments, &in); err != nil {
		return nil, err
	}
	data, err := fs.ReadFile(f.root.FS(), clean(in.Path))
	if err != nil {
		return nil, err
	}
	return string(data), nil
}

type match struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type grepOutput struct {
	Matches []match `json:"matches"`
}

// maxMatches keeps results readable.
const maxMatches = 100

func (f folder) grep(ctx context.Context, arguments json.RawMessage) (any, error) {
	var in struct {
		Text *string `json:"text"`
	}
	if err := read(arguments, &in); err != nil {
		return nil, err
	}
	if in.Text == nil {
		return nil, fmt.Errorf("the arguments do not fit: text is missing")
	}
	out := grepOutput{Matches: []match{}}
	err := fs.WalkDir(f.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != ".":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		file, err := f.root.Open(path)
		if err != nil {
			return nil // a file that cannot be read has no matches
		}
		defer file.Close()
		found := matches(file, path, *in.Text)
		out.Matches = append(out.Matches, found[:min(len(found), maxMatches-len(out.Matches))]...)
		if len(out.Matches) == maxMatches {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search the folder: %w", err)
	}
	return out, nil
}

func matches(r io.Reader, path, text string) []match {
	var found []match
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan() && len(found) < maxMatches; n++ {
		if strings.Contains(lines.Text(), text) {
			found = append(found, match{File: path, Line: n, Text: lines.Text()})
		}
	}
	return found
}

func clean(path string) string {
	if path == "" {
		return "."
	}
	return path
}
