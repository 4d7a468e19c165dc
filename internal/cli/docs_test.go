package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

var (
	inlineCode = regexp.MustCompile("`(toolroom [^`]+)`")
	configKey  = regexp.MustCompile("`([a-z]+(?:\\.[a-z_]+)+)`")
	inHint     = regexp.MustCompile(`(?m)^ {4}.*?(toolroom [a-z].*)$`)
	typedLine  = regexp.MustCompile(`(?m)^\$ (.*\btoolroom [a-z].*)$`)
)

// commandsIn returns the commands of a text that begin with toolroom, as words. A command ends
// where a sentence of a hint goes on.
func commandsIn(text string) [][]string {
	var found [][]string
	add := func(line string) {
		f, err := syntax.NewParser().Parse(strings.NewReader(line), "")
		if err != nil {
			return
		}
		syntax.Walk(f, func(n syntax.Node) bool {
			call, ok := n.(*syntax.CallExpr)
			if !ok || len(call.Args) < 2 || call.Args[0].Lit() != "toolroom" {
				return true
			}
			var words []string
			for _, w := range call.Args[1:] {
				var b bytes.Buffer
				_ = syntax.NewPrinter().Print(&b, w)
				words = append(words, strings.Trim(b.String(), `'"`))
			}
			found = append(found, words)
			return true
		})
	}
	for _, m := range inlineCode.FindAllStringSubmatch(text, -1) {
		add(m[1])
	}
	for _, m := range typedLine.FindAllStringSubmatch(text, -1) {
		add(m[1])
	}
	for _, m := range inHint.FindAllStringSubmatch(text, -1) {
		command, _, _ := strings.Cut(strings.NewReplacer(";", ". ", ")", ". ", ", ", ". ", " shows ", ". ").Replace(m[1]), ". ")
		add(command)
	}
	return found
}

// The commands of the pages about errors, and of the other documentation, are those of this
// program, with flags and arguments that it takes.
func TestCommandsInTheDocumentationCanBeTyped(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../docs/errors/*.md")
	if err != nil || len(more) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	total := 0
	for _, page := range append(append(pages, more...), "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range commandsIn(string(text)) {
			total++
			a, _ := newCLI(Program{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, func() {})
			c, rest, err := a.root().Find(words)
			if err == nil {
				err = c.ParseFlags(rest)
			}
			if err == nil && c.HasSubCommands() && len(c.Flags().Args()) > 0 && !c.Runnable() {
				err = unknownCommand(c, c.Flags().Arg(0))
			}
			if err == nil && c.Args != nil && len(c.Flags().Args()) > 0 {
				err = c.Args(c, c.Flags().Args())
			}
			if err != nil && !strings.Contains(err.Error(), "help requested") {
				t.Errorf("%s: toolroom %s: %v", filepath.Base(page), strings.Join(words, " "), err)
			}
		}
	}
	if total < 200 {
		t.Errorf("only %d commands were found", total)
	}
}

// The pages about errors name keys of the config that exist.
func TestErrorPagesNameKeysThatExist(t *testing.T) {
	reference, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/errors/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range configKey.FindAllStringSubmatch(string(text), -1) {
			section, rest, _ := strings.Cut(m[1], ".")
			last := m[1][strings.LastIndexByte(m[1], '.')+1:]
			if section == "details" || section == "namespace" || strings.HasSuffix(m[1], ".md") {
				continue
			}
			if !strings.Contains(string(reference), "`"+m[1]) && (!strings.Contains(string(reference), "`"+section+".") || !strings.Contains(string(reference), "`"+last+"`") && !strings.Contains(string(reference), "`"+rest+"`")) {
				t.Errorf("%s: there is no key %s", filepath.Base(page), m[1])
			}
		}
	}
}
