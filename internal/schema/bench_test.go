package schema

import (
	"testing"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// issueSchema is a typical tool: seven properties, an enum, a list, bounds.
const issueSchema = `{
  "type": "object",
  "properties": {
    "title":    {"type": "string", "minLength": 1, "maxLength": 256, "description": "Short summary"},
    "body":     {"type": "string", "description": "Markdown text"},
    "labels":   {"type": "array", "items": {"type": "string"}, "maxItems": 20},
    "priority": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
    "state":    {"type": "string", "enum": ["open", "closed", "draft"]},
    "assignee": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
    "notify":   {"type": "boolean", "default": false}
  },
  "required": ["title", "labels"],
  "additionalProperties": false
}`

const (
	issueCall    = `{"title":"Crash on start","body":"It \"fails\" at once.","labels":["bug","p1"],"priority":3,"state":"open","assignee":null,"notify":true}`
	issueMistake = `{"title":"Crash on start","body":7,"lables":["bug","p1"],"priority":9,"state":"opn","assignee":null,"notify":true}`
)

func mustCompile(tb testing.TB, text string) *Schema {
	tb.Helper()
	s, err := Compile([]byte(text), Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile([]byte(issueSchema), Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidTextByMatcher(b *testing.B) {
	s, text := mustCompile(b, issueSchema), []byte(issueCall)
	b.ReportAllocs()
	for b.Loop() {
		if !s.Accepts(text) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkValidTextByJudge(b *testing.B) {
	s, text := mustCompile(b, issueSchema), []byte(issueCall)
	b.ReportAllocs()
	for b.Loop() {
		tree, err := jsonx.Decode(text, jsonx.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Validate(tree); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidTreeByJudge(b *testing.B) {
	s, tree := mustCompile(b, issueSchema), decode(b, issueCall)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(tree); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInvalidTreeByJudge(b *testing.B) {
	s, tree := mustCompile(b, issueSchema), decode(b, issueMistake)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(tree); err == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkInvalidTextByMatcher(b *testing.B) {
	s, text := mustCompile(b, issueSchema), []byte(issueMistake)
	b.ReportAllocs()
	for b.Loop() {
		if s.Accepts(text) {
			b.Fatal("accepted")
		}
	}
}
