package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra/doc"

	"github.com/toolroom/toolroom/internal/cli"
)

// manuals returns the man pages and completion scripts, below share.
func manuals(r *release) ([]entry, error) {
	var out bytes.Buffer
	program := cli.Program{In: strings.NewReader(""), Out: &out, Err: os.Stderr, Version: r.version.semver, Home: "~/.local/state/toolroom"}
	root := program.Commands()
	root.DisableAutoGenTag = true
	dir, err := os.MkdirTemp("", "toolroom-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	header := &doc.GenManHeader{Section: "1", Source: "Toolroom " + r.version.semver, Manual: "Toolroom", Date: &r.date}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return nil, err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return nil, err
	}
	var list []entry
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: path.Join("share/man/man1", filepath.Base(page)), mode: 0o644, data: data})
	}
	for shell, name := range map[string]string{
		"bash": "share/bash-completion/completions/toolroom",
		"zsh":  "share/zsh/site-functions/_toolroom",
		"fish": "share/fish/vendor_completions.d/toolroom.fish",
	} {
		out.Reset()
		if code := program.Run(context.Background(), []string{"completion", shell}); code != 0 {
			return nil, fmt.Errorf("toolroom completion %s: exit code %d", shell, code)
		}
		list = append(list, entry{name: name, mode: 0o644, data: bytes.Clone(out.Bytes())})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list, nil
}
