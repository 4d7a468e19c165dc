package layers

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan  = regexp.MustCompile("`[^`]*`")
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func TestPagesHaveWholeTablesAndLinksThatLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text := prose(t, page)
		for i, line := range text {
			row := strings.TrimSpace(line)
			if strings.HasPrefix(row, "|") && !strings.HasSuffix(row, "|") {
				t.Errorf("%s:%d: the row of a table is broken over two lines: %.60s", page, i+1, row)
			}
		}
		// A link may be broken over two lines.
		for _, found := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(strings.Join(text, "\n"), ""), -1) {
			checkLink(t, page, found[1])
		}
	}
}

// checkLink fails the test unless a link leads to a file, and to a heading if it names one.
func checkLink(t *testing.T, page, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" {
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		return
	}
	file := page
	if u.Path != "" {
		file = filepath.Join(filepath.Dir(page), filepath.FromSlash(u.Path))
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("%s: the link %s leads nowhere", page, target)
		return
	}
	if u.Fragment != "" && strings.HasSuffix(file, ".md") && !slices.Contains(anchors(t, file), u.Fragment) {
		t.Errorf("%s: %s has no such heading", page, target)
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for _, line := range prose(t, page) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			all = append(all, strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
		}
	}
	return all
}

// prose returns the lines of a page. Those of code blocks are empty.
func prose(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	code := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if code || fence {
			lines[i] = ""
		}
		if fence {
			code = !code
		}
	}
	return lines
}

// pages returns the pages of docs, and those of the root of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			all = append(all, path)
		}
		return err
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all
}
