package folder

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignoreRules are the rules of one .gitignore.
type ignoreRules struct {
	// dir is the folder of the .gitignore, relative to the tree. If that is above the tree, dir
	// is empty, and below is the path of the tree relative to it.
	dir, below string
	lines      []ignoreRule
}

type ignoreRule struct {
	pattern     string // relative to dir
	negated     bool
	foldersOnly bool // for folders only
}

// maxIgnore is the maximum size of a .gitignore, in bytes.
const maxIgnore = 1 << 20

// parseIgnore reads the rules of a .gitignore (gitignore(5)).
func parseIgnore(text []byte) (rules []ignoreRule) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxIgnore)
	for lines.Scan() {
		line := strings.TrimRight(strings.TrimSuffix(lines.Text(), "\r"), " ")
		if line == "" || line[0] == '#' {
			continue
		}
		rule := ignoreRule{}
		if line[0] == '!' {
			rule.negated, line = true, line[1:]
		}
		line = strings.TrimPrefix(line, `\`)
		if before, ok := strings.CutSuffix(line, "/"); ok {
			rule.foldersOnly, line = true, before
		}
		if !strings.Contains(line, "/") {
			line = "**/" + line
		}
		rule.pattern = strings.TrimPrefix(line, "/")
		if rule.pattern != "" && doublestar.ValidatePattern(rule.pattern) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// isIgnored reports whether the last rule that matches a path excludes it. The caller has
// checked the folders above.
func isIgnored(all []ignoreRules, name string, isFolder bool) bool {
	for _, rules := range slices.Backward(all) {
		rel, ok := rules.relative(name)
		if !ok {
			continue
		}
		for _, rule := range slices.Backward(rules.lines) {
			if rule.foldersOnly && !isFolder {
				continue
			}
			if match, _ := doublestar.Match(rule.pattern, rel); match {
				return !rule.negated
			}
		}
	}
	return false
}

// relative returns a path of the tree relative to the folder of the rules.
func (r ignoreRules) relative(name string) (string, bool) {
	switch r.dir {
	case "":
		return path.Join(r.below, name), true
	case ".":
		return name, true
	}
	return strings.CutPrefix(name, r.dir+"/")
}

// readRules reads the .gitignore of a folder.
func (t *Tree) readRules(dir string, entries []fs.DirEntry) ignoreRules {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" && e.Type().IsRegular() }) {
		return ignoreRules{}
	}
	files := t.Opener()
	defer files.Close()
	f, err := files.Open(path.Join(dir, ".gitignore"))
	if err != nil {
		return ignoreRules{}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnore))
	if err != nil {
		return ignoreRules{}
	}
	return ignoreRules{dir: dir, lines: parseIgnore(text)}
}

// rulesAbove reads the .gitignore files above the tree, up to the root of the repository. It
// reads only those inside the folders that tools may use.
func (t *Tree) rulesAbove() []ignoreRules {
	var all []ignoreRules
	below := ""
	for dir := t.real; ; {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if _, _, err := t.folders.locate(parent); err != nil || parent == dir {
			break
		}
		below = path.Join(filepath.Base(dir), below)
		dir = parent
		if text, _, err := t.folders.Read(filepath.Join(dir, ".gitignore"), maxIgnore); err == nil {
			all = append(all, ignoreRules{below: below, lines: parseIgnore(text)})
		}
	}
	slices.Reverse(all)
	return all
}
