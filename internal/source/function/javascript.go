package function

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed" // of the inspector
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/js"
	"github.com/toolroom/toolroom/sandbox"
)

//go:embed inspector/inspect.js
var scriptInspector string

//go:embed inspector/parser.min.js.gz
var packedParser []byte

// scriptParser returns the text of the parser of JavaScript and TypeScript, which the
// inspector evaluates in its sandbox.
var scriptParser = sync.OnceValues(func() (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(packedParser))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
})

func isJavaScript(language string) bool { return language == "javascript" || language == "typescript" }

// inspectScript finds the tools in JavaScript or TypeScript. The code is parsed in a
// sandbox, and not run.
func inspectScript(ctx context.Context, engines []engine.Engine, isolated sandbox.Spec, c *Code, wanted []bridge.Value, packages string) ([]Inspected, error) {
	parser, err := scriptParser()
	if err != nil {
		return nil, err
	}
	siblings := bridge.Map{}
	for name, text := range c.Files {
		if name != c.File && isJavaScript(languages[path.Ext(name)]) {
			siblings = append(siblings, bridge.Member{Key: name, Value: text})
		}
	}
	if wanted == nil {
		wanted = []bridge.Value{}
	}
	job := engine.Job{
		Run: "inspect", Owner: "functions", Sandbox: isolated,
		Program: bridge.Program{
			// Parser and inspector are inputs, so that they are not checked like an author's program.
			Language: "javascript", Name: "inspect.js", Source: "return (0, eval)(inspector)", Limits: inspectLimits,
			Inputs: bridge.Map{
				{Key: "inspector", Value: "(() => {" + scriptInspector + "})()"},
				{Key: "parser", Value: parser},
				{Key: "source", Value: c.Files[c.File]},
				{Key: "file", Value: c.File},
				{Key: "stem", Value: toolNameOf(c.File)},
				{Key: "files", Value: siblings},
				{Key: "wanted", Value: wanted},
			},
		},
	}
	result, err := runFirst(ctx, engines, job)
	if err != nil {
		return nil, explainInspection(c.File, err)
	}
	if f := result.Outcome.Failure; f != nil {
		return nil, fileError(c.File, 0, 0, "it cannot be inspected: "+f.Error(), "write it in simpler parts, or put schemas into "+ManifestFile)
	}
	tools, _, err := readInspection(c.File, result.Outcome.Value)
	if err != nil {
		return nil, err
	}
	for i := range tools {
		if err := chooseRuntime(c, &tools[i], packages); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

// chooseRuntime sets t.Node if the tool or one of its packages uses modules of Node, or if a
// package must be loaded from its own folder.
func chooseRuntime(c *Code, t *Inspected, packages string) error {
	named := c.Manifest.Engine
	if named == "auto" {
		named = ""
	}
	node := packages != "" && (len(c.Manifest.Egress) > 0 || named != "" && named != "js")
	if !node {
		b, err := newBundle(c, t, js.Packages{Folder: packages})
		switch {
		case err == nil && b.NeedsNode == "":
			return nil
		case err == nil && named == "js":
			return fileError(c.File, t.Line, 1, t.Name+" needs Node: "+b.NeedsNode, "remove engine: js, or what needs Node")
		case err != nil && packages == "":
			return err
		}
	}
	b, err := newBundle(c, t, js.Packages{Folder: packages, Node: true})
	if err != nil {
		return err
	}
	t.Node = true
	for _, one := range b.Externals {
		t.Preload = append(t.Preload, js.Key(one))
	}
	return nil
}

// newBundle bundles a tool's files and packages into one program.
func newBundle(c *Code, t *Inspected, packages js.Packages) (*js.Bundle, error) {
	var plan struct{ Private bool }
	if err := json.Unmarshal(t.Plan, &plan); err != nil {
		return nil, err
	}
	b, failure := js.NewBundle(c.Files, c.File, t.Entry, plan.Private, packages)
	if failure != nil {
		return nil, fileError(failure.File, failure.Line, failure.Column, failure.Message, "a tool is an ES module that imports files of its folder and the packages that it declares")
	}
	return b, nil
}

// bundledProgram is the bundle of a function in JavaScript or TypeScript, with its call.
type bundledProgram struct {
	source      string
	mapPosition func(line, column int) (string, int, int, bool)
	preload     []string
}

func (t *Tool) bundle() (bundledProgram, error) {
	b, err := newBundle(&t.d.Code, &Inspected{Entry: t.d.Entry, Plan: t.d.Plan}, t.d.Packages)
	if err != nil {
		return bundledProgram{}, toolroom.Errorf(toolroom.CodeInternal, "the version of %s cannot be bundled: %w", t.d.Tool.ID, err)
	}
	var text strings.Builder
	text.WriteString(b.Source)
	fmt.Fprintf(&text, "return __toolroom_call__(%s, __toolroom__)\n", js.Entry)
	var ahead []string
	for _, one := range slices.Concat(b.Builtins, b.Externals) {
		ahead = append(ahead, js.Key(one))
	}
	return bundledProgram{text.String(), b.MapPosition, ahead}, nil
}
