package effects_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

var place = effects.PathBase{Dir: "/nowhere/work", Home: "/nowhere/home"}

// lines writes effects as kind.mode:target.
func lines(list []toolroom.Effect) []string {
	var out []string
	for _, e := range list {
		text := string(e.Kind)
		if e.Mode != "" {
			text += "." + e.Mode
		}
		out = append(out, text+":"+e.Target)
	}
	return out
}

// declaring is a tool of the operator's own with these effects.
func declaring(t *testing.T, texts ...string) *toolroom.Tool {
	t.Helper()
	tool := &toolroom.Tool{Source: toolroom.SourceGo}
	for _, text := range texts {
		if err := effects.CheckDeclared(text); err != nil {
			t.Fatal(err)
		}
		e, err := toolroom.ParseEffect(text)
		if err != nil {
			t.Fatal(err)
		}
		tool.Effects = append(tool.Effects, e)
	}
	return tool
}

func TestDeclaredEffectsTakeTheirTargetsFromArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		declared, arguments string
		want                []string
	}{
		{"file.read:{path}", `{"path": "a/b.txt"}`, []string{"file.read:/nowhere/work/a/b.txt"}},
		{"file.read:{path}", `{}`, nil},
		{"file.read:{path}", `{"path": null}`, nil},
		{"file.read:{paths}", `{"paths": ["/x", "/y"]}`, []string{"file.read:/x", "file.read:/y"}},
		{"file.write:{to.path}", `{"to": {"path": "/x"}}`, []string{"file.write:/x"}},
		{"file.write:{path}", `{"path": {"odd": 1}}`, []string{"file.write:"}},
		{"file.delete:{path}", `{"path": "/x"}`, []string{"file.delete:/x", "destroy:/x"}},
		{"file.write:/var/log/{name}.log", `{"name": "../../etc/x"}`, []string{"file.write:/etc/x.log"}},
		{"file.write:/var/log/{name}.log", `{}`, []string{"file.write:"}},
		{"host.post:api.example.com", `{}`, []string{"host.post:api.example.com:443", "send:api.example.com:443"}},
		{"host:{url}", `{"url": "http://Example.com/x"}`, []string{"host:example.com:80", "send:example.com:80"}},
		{"host:{url}", `{"url": "http://0x7f.1/"}`, []string{"host:", "send:"}},
		{"host:{url}", `{"url": "http://a@b/"}`, []string{"host:", "send:"}},
		{"host:{url}", `{"url": "http://127.0.0.1:1/"}`, []string{"host:127.0.0.1:1"}},
		{"host.delete:h.example:1", `{}`, []string{"host.delete:h.example:1", "send:h.example:1", "destroy:h.example:1"}},
		{"command:{line}", `{"line": "git  push"}`, []string{"command:git push", "host.connect:", "send:"}},
		{"command:{argv}", `{"argv": ["rm", "-rf", "/x y"]}`, []string{"command:rm -rf '/x y'", "file.delete:/x y", "destroy:/x y"}},
		{"command:{line}", `{"line": "$X"}`, []string{"command:", "send:", "destroy:", "file:", "host:"}},
		{"command:make build", `{}`, []string{"command:make build"}},
		{"sql:{q}", `{"q": "drop table users"}`, []string{"sql.drop:users", "destroy:users"}},
		{"sql.select:{table}", `{"table": "users"}`, []string{"sql.select:users"}},
		{"sql.drop:{table}", `{"table": "Users"}`, []string{"sql.drop:users", "destroy:users"}},
		{"sql.drop:{table}", `{"table": " public.\"Users\" "}`, []string{"sql.drop:public.users", "destroy:public.users"}},
		{"sql.drop:{table}", `{"table": "[Users]"}`, []string{"sql.drop:users", "destroy:users"}},
		{"spend:{amount} {currency}", `{"amount": 12.50, "currency": "EUR"}`, []string{"spend:12.5 EUR"}},
		{"send", `{}`, []string{"send:"}},
		{"none", `{}`, nil},
	} {
		got := lines(effects.Of(declaring(t, tt.declared), json.RawMessage(tt.arguments), nil, place))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s with %s (-want +got):\n%s", tt.declared, tt.arguments, diff)
		}
	}
}

func TestBadDeclarationsAreTold(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "files", "file.burn", "file:", "file.write:{path", "file.write:{}", "send.now", "command.run:x", "host.", "host.G E T", "sql.DROP:x"} {
		if err := effects.CheckDeclared(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestArgumentsOfToolsThatDeclareNothingAreReadByTheirNames(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string][]string{
		`{}`:                                          nil,
		`{"text": "hello", "n": 1}`:                   nil,
		`{"path": "/etc/passwd"}`:                     {"file:/etc/passwd"},
		`{"file_path": "/x", "outputDir": "/y"}`:      {"file:/x", "file:/y"},
		`{"PATH": "/x"}`:                              {"file:/x"},
		`{"p\u0061th": "/x"}`:                         {"file:/x"},
		`{"edits": [{"path": "/x"}, {"path": "/y"}]}`: {"file:/x", "file:/y"},
		`{"paths": ["/x"]}`:                           {"file:/x"},
		`{"source": "/x", "destination": "en"}`:       {"file:/x"},
		`{"uri": "file:///etc/passwd"}`:               {"file:/nowhere/work/file:/etc/passwd", "file:/etc/passwd"},
		`{"url": "https://a.example/x"}`:              {"host:a.example:443", "send:a.example:443"},
		`{"link": "https://a.example/x"}`:             {"host:a.example:443", "send:a.example:443"},
		`{"hostname": "a.example"}`:                   {"host:a.example:443", "send:a.example:443"},
		`{"command": "rm x"}`:                         {"command:rm x", "file.delete:/nowhere/work/x", "destroy:/nowhere/work/x"},
		`{"command": "sudo", "args": ["rm", "/x"]}`:   {"command:rm", "file:/x", "command:sudo rm /x", "command:rm /x", "file.delete:/x", "destroy:/x", "command:sudo", "command:", "send:", "destroy:", "file:", "host:"},
		`{"cmd": ["git", "push"]}`:                    {"command:git push", "host.connect:", "send:", "command:git", "command:push"},
		`{"sql": "drop table t"}`:                     {"sql.drop:t", "destroy:t"},
		`[1]`:                                         lines([]toolroom.Effect{{Kind: "command"}, {Kind: "file"}, {Kind: "host"}, {Kind: "sql"}, {Kind: "spend"}, {Kind: "send"}, {Kind: "destroy"}}),
	} {
		no, yes := false, true
		tool := &toolroom.Tool{Source: toolroom.SourceGo, Hints: toolroom.Hints{ReadOnly: &yes, OpenWorld: &no}}
		if diff := cmp.Diff(want, lines(effects.Of(tool, json.RawMessage(arguments), nil, place))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arguments, diff)
		}
	}
}

func TestHintsOfServersMakeThingsStricterOnly(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	harmless := toolroom.Hints{ReadOnly: &yes, Destructive: &no, OpenWorld: &no}
	harmful := toolroom.Hints{Destructive: &yes, OpenWorld: &yes}
	declared := []toolroom.Effect{{Kind: toolroom.EffectNone}}
	host := []toolroom.Effect{{Kind: toolroom.EffectHost, Mode: "get", Target: "h.example:443"}}
	for _, tt := range []struct {
		name string
		tool toolroom.Tool
		want []string
	}{
		{"a server says nothing", toolroom.Tool{Source: toolroom.SourceMCP}, []string{"destroy:", "send:"}},
		{"a server says it does no harm", toolroom.Tool{Source: toolroom.SourceMCP, Hints: harmless}, []string{"destroy:", "send:"}},
		{"the operator says so", toolroom.Tool{Source: toolroom.SourceMCP, Effects: declared}, nil},
		{"the operator says so and the server that it does harm", toolroom.Tool{Source: toolroom.SourceMCP, Effects: declared, Hints: harmful}, []string{"destroy:", "send:"}},
		{"a function says nothing", toolroom.Tool{Source: toolroom.SourceGo}, []string{"destroy:", "send:"}},
		{"a function says it does no harm", toolroom.Tool{Source: toolroom.SourceGo, Hints: harmless}, nil},
		{"a request that reads", toolroom.Tool{Source: toolroom.SourceHTTP, Hints: toolroom.Hints{ReadOnly: &yes}, Effects: host}, []string{"host.get:h.example:443", "send:h.example:443"}},
		{"a request that nobody knows", toolroom.Tool{Source: toolroom.SourceHTTP, Effects: host}, []string{"host.get:h.example:443", "send:h.example:443", "destroy:"}},
	} {
		if diff := cmp.Diff(tt.want, lines(effects.Of(&tt.tool, nil, nil, place))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestTooManyEffectsAreAllUnknown(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 1000 {
		paths = append(paths, "/x/"+strings.Repeat("y", i))
	}
	arguments, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range effects.Of(declaring(t, "file.read:{paths}"), arguments, nil, place) {
		if e.Target != "" {
			t.Fatalf("%+v", e)
		}
	}
}

// TestReadingTheArgumentsOfACallIsBounded: arguments of a megabyte took a core for minutes,
// outside of the limits of their caller.
func TestReadingTheArgumentsOfACallIsBounded(t *testing.T) {
	t.Parallel()
	numbered := func(n int, text string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = strconv.Itoa(i) + text
		}
		return out
	}
	objects := make([]map[string]string, 20_000)
	for i := range objects {
		objects[i] = map[string]string{"command": strings.Repeat("sudo --w ", 60) + strconv.Itoa(i)}
	}
	for name, arguments := range map[string]any{
		"encoded paths":         map[string]any{"path": numbered(300, strings.Repeat("/a/..%252f\\ ", 300)+"\uff0e")},
		"paths through folders": map[string]any{"path": numbered(380, strings.Repeat("/a", 1000))},
		"words of one command":  map[string]any{"command": append([]string{"sudo", "--w"}, numbered(100_000, "x")...)},
		"commands":              map[string]any{"x": objects},
		"names":                 map[string]any{"path": numbered(200_000, "x")},
	} {
		text, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		got := effects.Of(&toolroom.Tool{}, text, nil, effects.PathBase{Dir: "/work", Home: "/home/u"})
		for _, want := range []toolroom.EffectKind{toolroom.EffectCommand, toolroom.EffectFile} {
			if name != "words of one command" && !slices.Contains(got, toolroom.Effect{Kind: want}) {
				t.Errorf("%s: %d effects, without any %s", name, len(got), want)
			}
		}
	}
}

func BenchmarkOfACallWithAPath(b *testing.B) {
	dir, err := os.Getwd()
	if err != nil {
		b.Fatal(err)
	}
	tool := &toolroom.Tool{Source: toolroom.SourceMCP}
	arguments := json.RawMessage(`{"path": "../effects/effects.go", "content": "hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		effects.Of(tool, arguments, nil, effects.PathBase{Dir: dir})
	}
}

func BenchmarkOfACallWithoutAnyTarget(b *testing.B) {
	tool := &toolroom.Tool{Source: toolroom.SourceGo}
	arguments := json.RawMessage(`{"a": 1, "b": 2}`)
	b.ReportAllocs()
	for b.Loop() {
		effects.Of(tool, arguments, nil, place)
	}
}
