package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	t.Parallel()
	const stream = ": a comment\n\nid: 1\nretry: 500\ndata: \n\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:no space\nid: x\x00y\n\ndata: unfinished"
	for name, r := range map[string]io.Reader{"at once": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEventStream(r)
			var got []event
			for {
				e, err := s.next()
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Errorf("the stream ended with %v", err)
					}
					break
				}
				got = append(got, e)
			}
			want := []event{
				{id: "1", retry: 500 * time.Millisecond},
				{kind: "message", data: []byte("{\"a\":\n1}")},
				{data: []byte("no space")},
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{}), cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" {
				t.Errorf("the events differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeaderValuesAreEncodedWhereTheyAreNotPlain(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"us-west1":        "us-west1",
		"two words":       "two words",
		" lead":           "=?base64?IGxlYWQ=?=",
		"a\r\nX: 1":       "=?base64?YQ0KWDogMQ==?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
		"ü":               "=?base64?w7w=?=",
	} {
		if got := encodeHeader(value); got != want {
			t.Errorf("%q became %q, want %q", value, got, want)
		}
	}
}

func TestParametersGoIntoHeadersOrTheirToolIsNotOffered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		schema string
		ok     bool
		want   map[string]string
	}{
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}`, true, map[string]string{"Mcp-Param-A": "x", "Mcp-Param-N": "3"}},
		{`{"properties":{"big":{"type":"integer","x-mcp-header":"Big"}}}`, true, map[string]string{}},
		{`{"properties":{"none":{"type":"boolean","x-mcp-header":"None"}}}`, true, map[string]string{}},
		{`{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}`, false, nil},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, false, nil},
		{`{"properties":{"a":{"type":"string","x-mcp-header":1}}}`, false, nil},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, false, nil},
		{`{"x-mcp-header":"A"}`, false, nil},
		{`true`, true, map[string]string{}},
	} {
		bindings, err := HeaderParams(json.RawMessage(c.schema))
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.schema, err)
		}
		if c.ok {
			got := ParamHeaders(bindings, json.RawMessage(`{"a":"x","o":{"n":3},"big":9007199254740993}`))
			if !maps.Equal(got, c.want) {
				t.Errorf("%s gave %v, want %v", c.schema, got, c.want)
			}
		}
	}
}

func TestManyHeaderParametersDoNotMultiplyTheArguments(t *testing.T) {
	const many = 500
	properties, members := make([]string, many), make([]string, many)
	for i := range many {
		properties[i] = fmt.Sprintf(`"p%d":{"type":"integer","x-mcp-header":"P%d"}`, i, i)
		members[i] = fmt.Sprintf(`"p%d":%d`, i, i)
	}
	params, err := HeaderParams(json.RawMessage(`{"properties":{` + strings.Join(properties, ",") + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	arguments := json.RawMessage(`{` + strings.Join(members, ",") + `}`)
	if n := len(ParamHeaders(params, arguments)); n != many {
		t.Errorf("%d of %d headers", n, many)
	}
	header := http.Header{}
	for name, value := range ParamHeaders(params, arguments) {
		header.Set(name, value)
	}
	server := post{r: &http.Request{Header: header}, s: &Server{o: ServerOptions{HeaderParams: func(*ServerRequest) []HeaderParam { return params }}}}
	server.messages = []*incoming{{}}
	server.messages[0].Method, server.messages[0].Arguments = "tools/call", arguments
	for name, f := range map[string]func(){
		"of the client": func() { ParamHeaders(params, arguments) },
		"of the server": func() {
			if err := server.checkParams(); err != nil {
				t.Error(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(1, f); n > 50*many {
			t.Errorf("%d parameters and members %s make %v allocations", many, name, n)
		}
	}
}

func TestAMessageIsOneLineWhateverIsInIt(t *testing.T) {
	t.Parallel()
	got, err := encodeRequest(7, "m", []Field{{"a", json.RawMessage("{\n \"k\": \"v\\n\"\r\n}")}, {"b", json.RawMessage(`{"n": 1.50}`)}})
	if want := `{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":{"k":"v\n"},"b":{"n": 1.50}}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func FuzzWhatAServerSends(f *testing.F) {
	f.Add("data: {}\n\n", `{"jsonrpc":"2.0","id":1,"result":{}}`)
	f.Add("id: 1\r\nretry: 99999999999999999999\r\n", `[{"method":"x"},{"id":null}]`)
	f.Add(":\n\n\n", `{"properties":{"a":{"x-mcp-header":"A"}}}`)
	f.Fuzz(func(t *testing.T, stream, text string) {
		s := newEventStream(strings.NewReader(stream))
		for {
			if _, err := s.next(); err != nil {
				break
			}
		}
		messages, err := decode([]byte(text))
		if err == nil {
			for _, m := range messages {
				m.responseID()
			}
		}
		if bindings, err := HeaderParams(json.RawMessage(text)); err == nil {
			ParamHeaders(bindings, json.RawMessage(text))
		}
	})
}
