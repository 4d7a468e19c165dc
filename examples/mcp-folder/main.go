// Command mcp-folder is a small MCP server on stdio over one folder, read-only.
// It shows what a server looks like from the other side, and gives the demo and
// the tests a real one that needs nothing but Go.
//
//	toolroom sources add docs -- mcp-folder ./docs
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: mcp-folder FOLDER")
	}
	// A Root keeps every path inside the folder, links included.
	root, err := os.OpenRoot(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := newServer(root).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func newServer(root *os.Root) *mcp.Server {
	f := folder{root}
	server := mcp.NewServer(&mcp.Implementation{Name: "folder", Title: "Folder " + root.Name(), Version: "1"}, nil)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(server, &mcp.Tool{Name: "list", Description: "List the files and folders of a folder.", Annotations: reads}, f.list)
	mcp.AddTool(server, &mcp.Tool{Name: "read", Description: "Read a text file.", Annotations: reads}, f.read)
	mcp.AddTool(server, &mcp.Tool{Name: "grep", Description: "Find the lines of all text files that contain a text.", Annotations: reads}, f.grep)
	return server
}

type folder struct{ root *os.Root }

type pathInput struct {
	Path string `json:"path,omitempty" jsonschema:"path below the folder; empty is the folder itself"`
}

type listInput struct {
	pathInput
	Limit  int    `json:"limit,omitempty" jsonschema:"most entries at a time; 0 is all"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

type entry struct {
	Name      string `json:"name"`
	Directory bool   `json:"directory,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
}

type listOutput struct {
	Entries []entry `json:"entries"`
	Next    string  `json:"next,omitempty" jsonschema:"cursor of the next page; none on the last"`
}

func (f folder) list(_ context.Context, _ *mcp.CallToolRequest, in listInput) (*mcp.CallToolResult, listOutput, error) {
	out := listOutput{Entries: []entry{}}
	files, err := fs.ReadDir(f.root.FS(), clean(in.Path)) // in the order of their names
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
	return nil, out, err
}

func (f folder) read(_ context.Context, _ *mcp.CallToolRequest, in pathInput) (*mcp.CallToolResult, any, error) {
	data, err := fs.ReadFile(f.root.FS(), clean(in.Path))
	if err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}}, nil, nil
}

type grepInput struct {
	Text string `json:"text" jsonschema:"the text to look for"`
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

func (f folder) grep(ctx context.Context, _ *mcp.CallToolRequest, in grepInput) (*mcp.CallToolResult, grepOutput, error) {
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
		found := matches(file, path, in.Text)
		out.Matches = append(out.Matches, found[:min(len(found), maxMatches-len(out.Matches))]...)
		if len(out.Matches) == maxMatches {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("search the folder: %w", err)
	}
	return nil, out, err
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
