package search

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatARequestNamesIsToldFromWhatItSays(t *testing.T) {
	t.Parallel()
	tests := []struct{ query, said, named, kinds string }{
		{"what is in config.json", "what is in", "config.json", "file"},
		{"open src/main.go, please", "open please", "src/main.go,", "file"},
		{"open ./Makefile", "open ./Makefile", "", "file"},
		{"list src/, then ../b and /usr/bin", "list then and", "src/, ../b /usr/bin", "file file file"},
		{"and/or a or b/c, 1/2/2026 /", "and/or a or b/c, 1/2/2026 /", "", ""},
		{"call sendEmail, MAX_SIZE or run()", "call or", "sendEmail, MAX_SIZE run()", "function function function"},
		{"YouTube on an iPhone by CamelCase _x", "YouTube on an iPhone by CamelCase _x", "", ""},
		{"show 3f2a91c, not 1234567 or defaced", "show not 1234567 or defaced", "3f2a91c,", "commit"},
		{"what runs on localhost:3000", "what runs on", "localhost:3000", "url"},
		{"read https://example.com/post?q=1", "read", "https://example.com/post?q=1", "url"},
		{"go to Example.com/login", "go to", "Example.com/login", "url"},
		{"commit with the message \"fix the login bug\" now", "commit with the message now", "fix the login bug", ""},
		{"click 'Buy now'", "click", "Buy now", ""},
		{"what's Ann's plan and don't", "what's Ann's plan and don't", "", ""},
		{"find “sold out” here", "find here", "sold out", ""},
		{"an unclosed \"quote", "an unclosed \"quote", "", ""},
		{"\"create issue\"", "\"create issue\"", "", ""},
		{"version 2.5 or v1.2, e.g. and/or", "version 2.5 or v1.2, e.g. and/or", "", ""},
		{"mail ann@example.com", "mail ann@example.com", "", ""},
		{"say \"\xff\xff", "say \"\xff\xff", "", ""},
		{"say '" + strings.Repeat("x ", maxQuoted) + "'", "say '" + strings.TrimSpace(strings.Repeat("x ", maxQuoted)) + " '", "", ""},
		{"", "", "", ""},
	}
	for _, tt := range tests {
		said, named, kinds := splitValues(tt.query)
		got := []string{strings.Join(strings.Fields(said), " "), strings.TrimSpace(named), strings.Join(kinds, " ")}
		if diff := cmp.Diff([]string{tt.said, tt.named, tt.kinds}, got); diff != "" {
			t.Errorf("%q: -want +got\n%s", tt.query, diff)
		}
	}
}

func TestAValueDoesNotDecideWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	ix := newInternal(
		Document{ID: "git:log", Name: "log", Description: "The history of commits."},
		Document{ID: "file:read", Name: "read", Description: "Read a file."},
	)
	for query, want := range map[string]string{
		"read error.log":        "file:read",
		"read \"log\"":          "file:read",
		"show me the log":       "git:log",
		"error.log":             "git:log",
		"the log, not a readme": "git:log",
	} {
		if hits := ix.Search(query, Options{}); len(hits) == 0 || hits[0].ID != want {
			t.Errorf("%q finds %+v first, not %s", query, hits, want)
		}
	}
}

func TestATagOfSeveralWordsIsAPhrase(t *testing.T) {
	t.Parallel()
	ix := newInternal(
		Document{ID: "a:grep", Name: "grep", Tags: []string{"look-for", "appearance"}},
		Document{ID: "a:shoot", Name: "shoot", Tags: []string{"look", "for-sale"}},
		Document{ID: "a:move", Name: "move", Tags: []string{"rename-file"}},
		Document{ID: "a:edit", Name: "edit", Tags: []string{"rename", "file"}},
	)
	for query, want := range map[string]string{
		"look for a word":        "a:grep",
		"look, is it for sale":   "a:shoot",
		"rename the file":        "a:move",
		"a file that I rename":   "a:edit", // apart; equal scores are ordered by id
		"rename this file there": "a:move",
	} {
		if hits := ix.Search(query, Options{}); len(hits) == 0 || hits[0].ID != want {
			t.Errorf("%q finds %+v first, not %s", query, hits, want)
		}
	}
}

func TestAWordInTwoTagsCountsOnce(t *testing.T) {
	t.Parallel()
	once, twice := analyse(Document{ID: "a", Tags: []string{"note"}}), analyse(Document{ID: "a", Tags: []string{"note", "notes"}})
	if once.terms["note"] != twice.terms["note"] || once.length != twice.length {
		t.Errorf("once %+v, twice %+v", once, twice)
	}
}

func TestAQuestionAboutAChangeAsksForNone(t *testing.T) {
	t.Parallel()
	for query, changes := range map[string]bool{
		"delete the file": true, "what did you delete": false, "can you delete it": true,
		"how do I delete it": true, "the files I changed": false, "show deleted files": false, "has it been updated": false, "read update.txt": false,
	} {
		if got := parse(query).asksForChange; got != changes {
			t.Errorf("%q asks for a change: %t", query, got)
		}
	}
}

func newInternal(docs ...Document) *Index {
	ix := &Index{}
	ix.Put(docs...)
	return ix
}
