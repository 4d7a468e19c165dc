package js

import (
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"

	"github.com/toolroom/toolroom/bridge"
)

// stripTypes removes type annotations and rewrites syntax that is newer than target. It also
// parses plain JavaScript, so it reports the syntax errors of both languages.
func (p *Program) stripTypes(target api.Target) *bridge.Failure {
	typed := p.Source
	result := api.Transform(typed, api.TransformOptions{
		Loader: api.LoaderTS, Target: target, Sourcemap: api.SourceMapExternal, LogLevel: api.LogLevelSilent,
		// Otherwise a text that is one expression would be dropped as unused.
		TreeShaking: api.TreeShakingFalse,
	})
	if len(result.Errors) > 0 {
		return p.syntaxError(result.Errors[0])
	}
	sources, err := sourcemap.Parse("", result.Map)
	if err != nil {
		return p.failureAt(bridge.FailSyntax, 0, "SyntaxError", "reading the source map of the program: %v", err)
	}
	p.Source = strings.TrimSuffix(strings.TrimSpace(string(result.Code)), ";")
	p.positionMaps = append(p.positionMaps, func(line, column int) (int, int, bool) {
		_, _, from, at, ok := sources.Source(line, column-1)
		return from, at + 1, ok
	})
	return nil
}

func (p *Program) syntaxError(m api.Message) *bridge.Failure {
	f := &bridge.Failure{Kind: bridge.FailSyntax, Type: "SyntaxError", Message: m.Text, File: p.name}
	if m.Location == nil {
		return f
	}
	// esbuild counts columns in bytes from 0.
	column := utf8.RuneCountInString(m.Location.LineText[:min(m.Location.Column, len(m.Location.LineText))]) + 1
	var ok bool
	f.Line, f.Column, ok = p.MapPosition(m.Location.Line, column)
	if !ok { // the text ends too early; the position is its end
		f.Line, f.Column = position(p.author, len(p.author))
	}
	if strings.HasPrefix(strings.TrimSpace(lineOf(p.author, f.Line)), "import ") {
		f.Message += ": a program imports nothing; tools are there by their names, for example await tools.github.create_issue({title: \"…\"})"
	}
	return f
}

func lineOf(text string, line int) string {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	return lines[line-1]
}
