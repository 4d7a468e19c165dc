package file

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// filePatch is the part of a patch about one file.
type filePatch struct {
	path, to         string // to is the new path if the file is renamed
	created, deleted bool
	hunks            []hunk
}

// hunk is one change: lines that begin with a space, - or +.
type hunk struct {
	at     int    // line in the old file, counted from 1; 0 is unknown
	anchor string // a line that stands before the hunk
	lines  []string
	// noEnd means that the last line of the new text has no line end.
	noEnd bool
}

func badPatch(line int, format string, args ...any) error {
	e := toolroom.Errorf(toolroom.CodeInvalidArguments, "line %d of the patch: %s", line, fmt.Sprintf(format, args...))
	return e.WithHint("write a unified diff (--- a/file, +++ b/file, @@ -1,3 +1,4 @@) or the form *** Begin Patch … *** End Patch")
}

// parsePatch reads a unified diff, or the form that begins with *** Begin Patch.
func parsePatch(text string) ([]filePatch, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	parse := parseUnified
	for _, line := range lines {
		if strings.HasPrefix(line, "*** ") && !strings.HasPrefix(line, "*** a/") {
			parse = parseSections
			break
		}
		if strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "@@ ") {
			break
		}
	}
	patches, err := parse(lines)
	if err == nil && len(patches) == 0 {
		err = badPatch(1, "there is no file in it")
	}
	return patches, err
}

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$`)

// diffParser parses a unified diff.
type diffParser struct {
	patches  []filePatch
	old, new int // lines that the current hunk still expects
}

func parseUnified(lines []string) ([]filePatch, error) {
	u := &diffParser{}
	var git filePatch // what git says before --- and +++
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		current := u.current()
		switch {
		case current != nil && len(current.hunks) > 0 && (u.old > 0 || u.new > 0) && isHunkLine(line) && !u.endsHunk(lines, i):
			u.line(line)
		case strings.HasPrefix(line, `\ No newline`):
			if h := u.hunk(); h != nil && len(h.lines) > 0 && h.lines[len(h.lines)-1][0] != '-' {
				h.noEnd = true
			}
		case strings.HasPrefix(line, "diff --git "):
			u.finishGit(&git)
		case strings.HasPrefix(line, "rename from "):
			git.path = strings.TrimPrefix(line, "rename from ")
		case strings.HasPrefix(line, "rename to "):
			git.to = strings.TrimPrefix(line, "rename to ")
		case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
			return nil, badPatch(i+1, "binary changes are not supported")
		case strings.HasPrefix(line, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ "):
			u.header(line[4:], lines[i+1][4:], git)
			git = filePatch{}
			i++
		case strings.HasPrefix(line, "@@"):
			if current == nil {
				return nil, badPatch(i+1, "a hunk without --- and +++ before it")
			}
			if err := u.beginHunk(line, i+1); err != nil {
				return nil, err
			}
		case current != nil && len(current.hunks) > 0 && isHunkLine(line) && line != "":
			u.line(line) // more lines than the head of the hunk promises: models miscount
		}
	}
	u.finishGit(&git)
	return u.patches, nil
}

// endsHunk reports whether the line at i, which looks like a part of the hunk, begins the next
// file.
func (u *diffParser) endsHunk(lines []string, i int) bool {
	return strings.HasPrefix(lines[i], "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ") && u.old <= 1
}

func isHunkLine(line string) bool {
	return line == "" || line[0] == ' ' || line[0] == '+' || line[0] == '-'
}

func (u *diffParser) current() *filePatch {
	if len(u.patches) == 0 {
		return nil
	}
	return &u.patches[len(u.patches)-1]
}

func (u *diffParser) hunk() *hunk {
	if f := u.current(); f != nil && len(f.hunks) > 0 {
		return &f.hunks[len(f.hunks)-1]
	}
	return nil
}

func (u *diffParser) line(line string) {
	line = cmp.Or(line, " ") // an empty line whose space an editor has removed
	if line[0] != '+' {
		u.old--
	}
	if line[0] != '-' {
		u.new--
	}
	h := u.hunk()
	h.lines = append(h.lines, line)
}

func (u *diffParser) beginHunk(line string, number int) error {
	h := hunk{}
	u.old, u.new = 1<<30, 1<<30
	if m := hunkHead.FindStringSubmatch(line); m != nil {
		h.at, _ = strconv.Atoi(m[1])
		u.old, u.new = countOf(m[2]), countOf(m[4])
		if u.old == 0 {
			h.at++ // an insertion names the line before it
		}
	} else if strings.HasPrefix(line, "@@ -") {
		return badPatch(number, "%q is not the head of a hunk", line)
	} else {
		h.anchor = strings.TrimSpace(strings.Trim(line, "@"))
	}
	f := u.current()
	f.hunks = append(f.hunks, h)
	return nil
}

func countOf(text string) int {
	if text == "" {
		return 1
	}
	n, _ := strconv.Atoi(text)
	return n
}

func (u *diffParser) header(old, new string, git filePatch) {
	a, b := headerPath(old, "a/"), headerPath(new, "b/")
	f := filePatch{path: a}
	switch {
	case a == "/dev/null":
		f.path, f.created = b, true
	case b == "/dev/null":
		f.deleted = true
	case git.to != "":
		f.path, f.to = git.path, git.to
	case a != b:
		f.path = b // some tools write the name of a copy on the first line
	}
	u.patches = append(u.patches, f)
	u.old, u.new = 0, 0
}

// headerPath removes the prefix and the time from a path of --- or +++.
func headerPath(text, prefix string) string {
	text, _, _ = strings.Cut(text, "\t")
	text = strings.TrimSpace(text)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	return strings.TrimPrefix(text, prefix)
}

// finishGit adds a rename without other changes.
func (u *diffParser) finishGit(git *filePatch) {
	if git.path != "" && git.to != "" {
		u.patches = append(u.patches, *git)
	}
	*git = filePatch{}
	u.old, u.new = 0, 0
}

// parseSections reads the form *** Begin Patch.
func parseSections(lines []string) ([]filePatch, error) {
	var patches []filePatch
	var current *filePatch
	for i, line := range lines {
		name, isHead := strings.CutPrefix(line, "*** ")
		switch {
		case isHead:
			verb, path, _ := strings.Cut(name, ": ")
			path = strings.TrimSpace(path)
			switch verb {
			case "Begin Patch", "End Patch", "End of File":
				continue
			case "Move to":
				if current == nil {
					return nil, badPatch(i+1, "Move to without a file before it")
				}
				current.to = path
				continue
			case "Add File", "Update File", "Delete File":
			default:
				return nil, badPatch(i+1, "%q is not known", line)
			}
			if path == "" {
				return nil, badPatch(i+1, "there is no path")
			}
			patches = append(patches, filePatch{path: path, created: verb == "Add File", deleted: verb == "Delete File"})
			current = &patches[len(patches)-1]
			if current.created {
				current.hunks = []hunk{{}}
			}
		case current == nil && strings.TrimSpace(line) == "", current != nil && current.deleted && strings.TrimSpace(line) == "":
		case current == nil:
			return nil, badPatch(i+1, "%q stands before the first file", line)
		case strings.HasPrefix(line, "@@") && !current.created:
			current.hunks = append(current.hunks, hunk{anchor: strings.TrimSpace(strings.Trim(line, "@"))})
		case current.created && !strings.HasPrefix(line, "+"):
			if strings.TrimSpace(line) != "" {
				return nil, badPatch(i+1, "the lines of a new file begin with +")
			}
		case isHunkLine(line):
			if len(current.hunks) == 0 {
				current.hunks = []hunk{{}}
			}
			line = cmp.Or(line, " ")
			h := &current.hunks[len(current.hunks)-1]
			h.lines = append(h.lines, line)
		default:
			return nil, badPatch(i+1, "%q begins with neither a space, + nor -", line)
		}
	}
	return patches, nil
}
