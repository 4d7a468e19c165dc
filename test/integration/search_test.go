//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
)

var searchMode = object{"expose": object{"mode": "search"}}

func TestSearchExposureFindsAndCallsTools(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem()}, searchMode)
	s := r.serveListed()
	for era := range eras {
		t.Run(era, func(t *testing.T) {
			r := r.in(t)
			want := []string{"call_tool", "describe_tools", "read_result", "search_tools"}
			if diff := cmp.Diff(want, toolNames(r.inspect(s, era, "--method", "tools/list"))); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			call := func(tool string, args ...string) object {
				words := []string{"--method", "tools/call", "--tool-name", tool}
				for _, arg := range args {
					words = append(words, "--tool-arg", arg)
				}
				return r.inspect(s, era, words...)
			}
			found := call("search_tools", "query=read the text of a file")
			hits := decode[struct{ Hits []struct{ ID string } }](t, encode(t, found["structuredContent"])).Hits
			if len(hits) == 0 || hits[0].ID != "filesystem:read_text_file" {
				t.Fatalf("the search found %v", found["structuredContent"])
			}
			described := call("describe_tools", `tools=["`+hits[0].ID+`"]`)
			if !strings.Contains(contentText(described), `"path"`) {
				t.Errorf("the description does not name the argument path: %s", contentText(described))
			}
			result := call("call_tool", "tool="+hits[0].ID, `arguments={"path": "`+r.files+`/README.md"}`)
			if got, want := contentText(result), "The file of TestSearchExposureFindsAndCallsTools\n"; got != want {
				t.Errorf("call_tool answered %q, want %q", got, want)
			}
		})
	}
}

func TestTruncatedResultIsReadOnToItsLastByte(t *testing.T) {
	r := newRoom(t, nil)
	r.configure(object{"filesystem": r.filesystem()}, searchMode)
	var text strings.Builder
	for i := 0; text.Len() < 200_000; i++ {
		fmt.Fprintf(&text, "line %06d with a snowman ☃\n", i)
	}
	path := r.write("big.txt", text.String())
	session := connect(t, r.serveListed(), eras["modern"], nil)
	call := func(tool string, args object) *mcp.CallToolResult {
		t.Helper()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil || result.IsError {
			t.Fatalf("%s: %v %s", tool, err, encode(t, result))
		}
		return result
	}
	cut := call("call_tool", object{"tool": "filesystem:read_text_file", "arguments": object{"path": path}})
	note := decode[struct{ Hidden *toolroom.Hidden }](t, encode(t, cut.Meta["toolroom/result"]))
	if note.Hidden == nil {
		t.Fatalf("the result does not say that it was cut: %s", encode(t, cut.Meta))
	}

	var whole strings.Builder
	for offset := int64(0); ; {
		page := decode[artifact.Page](t, encode(t, call("read_result", object{"handle": note.Hidden.Handle, "offset": offset}).StructuredContent))
		whole.WriteString(page.Text)
		if page.Next == 0 {
			if int64(whole.Len()) != page.Artifact.Size {
				t.Errorf("the pages have %d bytes, the result %d", whole.Len(), page.Artifact.Size)
			}
			break
		}
		if page.Next <= offset {
			t.Fatalf("page at %d goes on at %d", offset, page.Next)
		}
		offset = page.Next
	}
	if whole.String() != text.String() {
		t.Error("the pages do not make the text of the file")
	}
	shown := cut.Content[0].(*mcp.TextContent).Text
	marker := truncated.FindStringSubmatchIndex(shown)
	if marker == nil {
		t.Fatalf("the shown part does not say what is hidden: %.300s", shown)
	}
	head, tail, said := shown[:marker[0]], shown[marker[1]:], shown[marker[2]:marker[3]]
	if len(head)+len(tail) > 51_200 {
		t.Errorf("%d bytes are shown, want at most 51,200", len(head)+len(tail))
	}
	if !strings.HasPrefix(whole.String(), head) || !strings.HasSuffix(whole.String(), tail) {
		t.Error("what is shown is not the head and the tail of the result")
	}
	hidden := int64(whole.Len() - len(head) - len(tail))
	if said != fmt.Sprint(hidden) || note.Hidden.Bytes != hidden {
		t.Errorf("%s bytes are said to be hidden, and %d in the envelope, want %d", said, note.Hidden.Bytes, hidden)
	}
}

// truncated marks where a result was truncated.
var truncated = regexp.MustCompile(`\n\[Output truncated - (\d+) bytes hidden; [^]]*\]\n`)

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
