package file

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// EditArgs are the arguments of file:edit.
type EditArgs struct {
	Path       string `json:"path" jsonschema:"path of the file"`
	Search     string `json:"search" jsonschema:"the text to replace, exactly as it stands in the file; it must occur once, unless replace_all or count is set"`
	Replace    string `json:"replace" jsonschema:"the new text"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence"`
	Count      int    `json:"count,omitempty" jsonschema:"the number of occurrences that must exist; all are replaced"`
}

// EditResult is the value of file:edit.
type EditResult struct {
	Path     string `json:"path" jsonschema:"the file"`
	Replaced int    `json:"replaced" jsonschema:"number of places that were changed"`
	Line     int    `json:"line" jsonschema:"line of the first change"`
	Match    string `json:"match" jsonschema:"how the text was found: exact, whitespace (line ends and trailing spaces differed) or indentation"`
	Diff     string `json:"diff" jsonschema:"the change as a unified diff"`
}

func (f *files) edit() builtin.Tool {
	plan := func(f *files, in EditArgs) (planned, matchSummary, error) {
		before, info, err := f.Read(in.Path, maxChange)
		if err != nil {
			return planned{}, matchSummary{}, err
		}
		after, how, err := replaceIn(in, string(before))
		return planned{change{in.Path, before, []byte(after), true, true}, info}, how, err
	}
	return builtin.MustTool(builtin.Spec[EditArgs, EditResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("file:edit"), Title: "Edit a file",
			Description: "Edit a file: replace, change, rename or fix a word, line or piece of text in a source file or document, swap it for another. If the text is missing or ambiguous, nothing changes and the error shows the nearest text with its line number.",
			Hints:       builtin.Hints(false, true, false), Tags: []string{"file"},
			Effects:  writeEffects("{path}"),
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"path": "main.go", "search": "port := 80", "replace": "port := 8080"})}},
		},
		Arguments: map[string]builtin.Property{"path": {"minLength": 1}, "search": {"minLength": 1}, "count": {"minimum": 1}},
		Predict: func(_ *source.Request, in EditArgs) []toolroom.Effect {
			return append(readEffects(in.Path), writeEffects(in.Path)...)
		},
		Enforces: isFileRule,
		Preview: func(_ context.Context, _ *source.Request, in EditArgs) (source.Preview, error) {
			p, _, err := plan(f, in)
			if err != nil {
				return source.Preview{}, err
			}
			return preview([]change{p.change}), nil
		},
		Run: func(ctx context.Context, req *source.Request, in EditArgs) (EditResult, []toolroom.Content, error) {
			f := f.withRules(req, "read", "write", "delete")
			p, how, err := plan(f, in)
			if err != nil {
				return EditResult{}, nil, err
			}
			if err := f.apply(ctx, req, []planned{p}); err != nil {
				return EditResult{}, nil, err
			}
			out := EditResult{f.Absolute(in.Path), how.places, how.line, how.match, truncateDiff(p.diff())}
			text := fmt.Sprintf("Changed %s at line %d", in.Path, out.Line)
			if out.Replaced > 1 {
				text = fmt.Sprintf("Changed %d places in %s", out.Replaced, in.Path)
			}
			if out.Match != "exact" {
				text += " (the text matched except for its " + out.Match + ")"
			}
			return out, builtin.Text(text + ".\n" + out.Diff), nil
		},
	})
}

// matchSummary describes the matches of a search text: how many, the line of the first, and how
// exact.
type matchSummary struct {
	places, line int
	match        string
}

// span is a piece of a text.
type span struct{ from, to int }

// replaceIn replaces the search text. It looks for the exact text first, then compares
// lines without the white space at their ends, then without their indentation. Bytes
// outside the found places never change.
func replaceIn(in EditArgs, text string) (string, matchSummary, error) {
	if strings.TrimSpace(in.Search) == "" && !strings.Contains(text, in.Search) || in.Search == "" {
		return "", matchSummary{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "search is white space, which does not stand in %s", in.Path).
			WithHint("search for the text around it")
	}
	if in.Search == in.Replace {
		return "", matchSummary{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "search and replace are the same text")
	}
	places, match := findExact(text, in.Search), "exact"
	if len(places) == 0 {
		places, match = findLines(text, in.Search, func(s string) string { return strings.TrimRight(s, " \t\r") }), "whitespace"
	}
	if len(places) == 0 {
		places, match = findLines(text, in.Search, strings.TrimSpace), "indentation"
	}
	if err := in.checkPlaces(text, places); err != nil {
		return "", matchSummary{}, err
	}
	var out strings.Builder
	end := 0
	for _, p := range places {
		out.WriteString(text[end:p.from])
		out.WriteString(in.replacement(text[p.from:p.to], match))
		end = p.to
	}
	out.WriteString(text[end:])
	if out.String() == text {
		return "", matchSummary{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the replacement would not change %s", in.Path)
	}
	return out.String(), matchSummary{len(places), lineOf(text, places[0].from), match}, nil
}

// checkPlaces returns an error if the number of places is not the one that the call asks for.
func (in EditArgs) checkPlaces(text string, places []span) error {
	n := len(places)
	switch {
	case n == 0:
		return in.notFoundError(text)
	case in.Count > 0 && n != in.Count:
		return toolroom.Errorf(toolroom.CodeConflict, "the text stands in %s %d times, not %d times: lines %s", in.Path, n, in.Count, lineList(text, places))
	case n > 1 && !in.ReplaceAll && in.Count == 0:
		return toolroom.Errorf(toolroom.CodeConflict, "the text stands in %s %d times: lines %s", in.Path, n, lineList(text, places)).
			WithHint("add lines around it until it is unique, or set replace_all=true")
	}
	return nil
}

func lineList(text string, places []span) string {
	var lines []string
	for i, p := range places {
		if i == 10 {
			lines = append(lines, "…")
			break
		}
		lines = append(lines, fmt.Sprint(lineOf(text, p.from)))
	}
	return strings.Join(lines, ", ")
}

func lineOf(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

func findExact(text, search string) []span {
	var places []span
	for at := 0; ; {
		i := strings.Index(text[at:], search)
		if i < 0 {
			return places
		}
		places = append(places, span{at + i, at + i + len(search)})
		at += i + len(search)
	}
}

// findLines finds the lines of search in text. It compares lines in the form that normal
// returns.
func findLines(text, search string, normal func(string) string) []span {
	var want []string
	for line := range strings.SplitSeq(strings.TrimSuffix(search, "\n"), "\n") {
		want = append(want, normal(line))
	}
	if strings.TrimSpace(strings.Join(want, "")) == "" {
		return nil
	}
	var lines []string
	var starts []int
	at := 0
	for line := range strings.Lines(text) {
		lines = append(lines, normal(strings.TrimSuffix(line, "\n")))
		starts = append(starts, at)
		at += len(line)
	}
	starts = append(starts, len(text))
	var places []span
	for i := 0; i+len(want) <= len(lines); i++ {
		if !slices.Equal(lines[i:i+len(want)], want) {
			continue
		}
		to := starts[i+len(want)]
		if !strings.HasSuffix(search, "\n") { // keep the end of the last line
			to = len(strings.TrimRight(text[:to], "\r\n"))
			if last := starts[i+len(want)-1]; to < last {
				to = last
			}
		}
		places = append(places, span{starts[i], to})
		i += len(want) - 1
	}
	return places
}

// replacement returns the new text with the line ends and indentation of the old one.
func (in EditArgs) replacement(old, match string) string {
	text := in.Replace
	if match == "exact" {
		return text
	}
	if match == "indentation" {
		text = reindent(text, indentOf(in.Search), indentOf(old))
	}
	if strings.Contains(old, "\r\n") && !strings.Contains(text, "\r\n") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// indentOf returns the white space before the first line that has text.
func indentOf(text string) string {
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimLeft(line, " \t"); strings.TrimSpace(trimmed) != "" {
			return line[:len(line)-len(trimmed)]
		}
	}
	return ""
}

func reindent(text, from, to string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, from)
		if !ok || strings.TrimSpace(line) == "" {
			out.WriteString(line)
			continue
		}
		out.WriteString(to + rest)
	}
	return out.String()
}

// lineNumberPrefix matches a line number as file:read shows it.
var lineNumberPrefix = regexp.MustCompile(`^\s*\d+\s*[\t|:→]`)

// notFoundError returns the error for a text that is not in the file. It shows the most similar
// lines.
func (in EditArgs) notFoundError(text string) error {
	e := toolroom.Errorf(toolroom.CodeNotFound, "the search text does not stand in %s", in.Path)
	first, _, _ := strings.Cut(in.Search, "\n")
	if lineNumberPrefix.MatchString(first) {
		return e.WithHint("remove the line numbers from search: they are not part of the file")
	}
	line, near := nearestLines(text, in.Search)
	if near == "" {
		return e.WithHint("read the file again: file:read path=%q", in.Path)
	}
	e.Details = map[string]any{"nearest_line": line, "nearest_text": near}
	e.Message += fmt.Sprintf("; the nearest text is at line %d:\n%s", line, near)
	return e.WithHint("copy the text exactly, or read the place again: file:read path=%q offset=%d limit=40", in.Path, max(1, line-10))
}

// Bounds of the search for similar text, which only helps to correct a mistake.
const (
	maxNearText  = 1 << 20
	maxNearTime  = 300 * time.Millisecond
	maxNearShown = 2000
)

// nearestLines returns the lines of text that are most similar to search, and the number of the
// first. It stops at the bounds above.
func nearestLines(text, search string) (line int, near string) {
	text, search = text[:min(len(text), maxNearText)], search[:min(len(search), maxNearText)]
	enough := time.Now().Add(maxNearTime)
	want := strings.Split(strings.TrimSpace(search), "\n")
	if len(want) > 40 {
		want = want[:40]
	}
	words := make([]map[string]int, len(want))
	for i, w := range want {
		words[i] = countPairs(w)
	}
	lines := strings.Split(text, "\n")
	have := map[int]map[string]int{} // of the lines from i on that want may cover
	best, at := 0.0, -1
	for i := range lines {
		if time.Now().After(enough) {
			break
		}
		score := 0.0
		for j := range want {
			if i+j >= len(lines) {
				break
			}
			if have[i+j] == nil && len(lines[i+j]) < 1000 {
				have[i+j] = countPairs(lines[i+j])
			}
			score += overlap(words[j], have[i+j])
		}
		delete(have, i)
		if score /= float64(len(want)); score > best {
			best, at = score, i
		}
	}
	if best < 0.35 {
		return 0, ""
	}
	near = strings.Join(lines[at:min(at+len(want), len(lines))], "\n")
	if len(near) > maxNearShown {
		near = strings.ToValidUTF8(near[:maxNearShown], "") + "…"
	}
	return at + 1, near
}

// countPairs returns how often each pair of neighbouring characters occurs in a line.
func countPairs(line string) map[string]int {
	line = strings.Join(strings.Fields(line), " ")
	out := make(map[string]int, len(line))
	for i := 0; i+2 <= len(line); i++ {
		out[line[i:i+2]]++
	}
	return out
}

// overlap returns the similarity of two lines, from 0 to 1, given their pairs.
func overlap(a, b map[string]int) float64 {
	both, all := 0, 0
	for pair, n := range a {
		both += min(n, b[pair])
		all += n
	}
	for _, n := range b {
		all += n
	}
	if all == 0 {
		return 1 // two empty lines
	}
	return 2 * float64(both) / float64(all)
}
