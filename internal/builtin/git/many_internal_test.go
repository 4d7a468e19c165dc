package git

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/builtin/shell"
)

// A value with all files of a large repository could not be checked against its schema, and of
// an output whose middle is missing only the beginning is right.
func TestOfManyFilesAndLinesTheFirstAreListed(t *testing.T) {
	t.Parallel()
	var status, blame strings.Builder
	status.WriteString("# branch.head main\x00")
	hash := strings.Repeat("a", 40)
	for i := range maxListed + 1 {
		fmt.Fprintf(&status, "? f%d\x00", i)
		fmt.Fprintf(&blame, "%s %d %d\nauthor Ann\n\tline %d\n", hash, i+1, i+1, i+1)
	}
	for _, tt := range []struct {
		status string
		cut    int64
		files  int
		more   bool
	}{
		{status.String(), 0, maxListed, true},
		{"# branch.head main\x00? a\x00? b\x00", 0, 2, false},
		{"# branch.head main\x00? a\x00? b\n[… 9 bytes were not kept …]\nc\x00? d\x00", 9, 1, true},
		{"\n[… 9 bytes were not kept …]\nc\x00? d\x00", 9, 0, true},
		{"# branch.head main\x00", 0, 0, false},
	} {
		s := parseStatus(shell.ExecResult{Stdout: tt.status, Dropped: tt.cut})
		if len(s.Files) != tt.files || s.More != tt.more || strings.Contains(s.text(), moreFiles) != tt.more || s.Clean != (tt.files == 0 && !tt.more) {
			t.Errorf("%.80q: %d files, more %t, clean %t", tt.status, len(s.Files), s.More, s.Clean)
		}
	}
	for _, tt := range []struct {
		blame       string
		cut         int64
		lines, next int
	}{
		{blame.String(), 0, maxListed, maxListed + 1},
		{hash + " 1 7\nauthor Ann\n\tone\n", 0, 1, 0},
		{hash + " 1 7\nauthor Ann\n\tone\n" + hash + " 2 8\n\ttw\n[… 9 bytes were not kept …]\nx\n\tthree\n", 9, 1, 8},
	} {
		if r := parseBlame(shell.ExecResult{Stdout: tt.blame, Dropped: tt.cut}); len(r.Lines) != tt.lines || r.Next != tt.next {
			t.Errorf("%.80q: %d lines, next %d", tt.blame, len(r.Lines), r.Next)
		}
	}
}
