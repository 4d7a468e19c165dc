package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
)

const orderSchema = `{
  "type": "object",
  "properties": {
    "name":   {"type": "string"},
    "count":  {"type": "integer"},
    "price":  {"type": "number"},
    "urgent": {"type": "boolean"},
    "note":   {"type": ["string", "null"]},
    "size":   {"enum": ["s", "m", 3]},
    "any":    {},
    "tags":   {"type": "array", "items": {"type": "string"}},
    "ids":    {"type": "array", "items": {"type": "integer"}},
    "to":     {"$ref": "#/$defs/address"},
    "extra":  {"type": "object", "additionalProperties": {"type": "integer"}},
    "dotted.name": {"type": "string"},
    "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    "nothing": {"type": "null"}
  },
  "required": ["name"],
  "$defs": {"address": {"type": "object", "properties": {
    "street": {"type": "string"}, "number": {"type": "integer"}, "to": {"$ref": "#/$defs/address"}}}}
}`

func testFiles(path string) ([]byte, error) {
	files := map[string]string{"text": "line\n", "list": "[1, 2]", "binary": "\xff\xfe"}
	data, ok := files[path]
	if !ok {
		return nil, usage("", "open %s: no such file", path)
	}
	return []byte(data), nil
}

func TestWordsBecomeArgumentsAsTheSchemaTypesThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words  string // one a line
		schema string
		want   string
	}{
		"a string keeps the text of a number":           {words: "name=3", want: `{"name":"3"}`},
		"a string may be empty":                         {words: "name=", want: `{"name":""}`},
		"a string may hold = and spaces":                {words: "name=a=b c", want: `{"name":"a=b c"}`},
		"an integer is a number":                        {words: "count=3", want: `{"count":3}`},
		"an integer beyond 2^53 stays exact":            {words: "count=9007199254740993", want: `{"count":9007199254740993}`},
		"a number and a boolean":                        {words: "price=1.50\nurgent=true", want: `{"price":1.50,"urgent":true}`},
		"a nullable string is a string":                 {words: "note=null", want: `{"note":"null"}`},
		":= gives null all the same":                    {words: "note:=null", want: `{"note":null}`},
		"a null takes null":                             {words: "nothing=null", want: `{"nothing":null}`},
		"an enum without a type takes JSON or text":     {words: "size=3", want: `{"size":3}`},
		"an enum without a type takes text":             {words: "size=m", want: `{"size":"m"}`},
		"what has no type is JSON where it can be":      {words: `any={"a": [1]}`, want: `{"any":{"a":[1]}}`},
		"what has no type is text where it is not JSON": {words: "any=hello", want: `{"any":"hello"}`},
		"one word of an array is its only item":         {words: "tags=a", want: `{"tags":["a"]}`},
		"repeated words are an array":                   {words: "tags=a\ntags=2", want: `{"tags":["a","2"]}`},
		"items have their own type":                     {words: "ids=1\nids=2", want: `{"ids":[1,2]}`},
		"an array may be JSON":                          {words: "ids=[1, 2]", want: `{"ids":[1,2]}`},
		"repeating text that may be a list makes one":   {words: "either=a\neither=b", want: `{"either":["a","b"]}`},
		"once, it is the text":                          {words: "either=a", want: `{"either":"a"}`},
		"a dot goes into an object":                     {words: "to.street=Main\nto.number=7", want: `{"to":{"number":7,"street":"Main"}}`},
		"dots go deeper":                                {words: "to.to.to.number=7", want: `{"to":{"to":{"to":{"number":7}}}}`},
		"a name with a dot is a name":                   {words: "dotted.name=x", want: `{"dotted.name":"x"}`},
		"an open object takes any name":                 {words: "extra.a.b=1", want: `{"extra":{"a.b":1}}`},
		"an object may be JSON":                         {words: `to={"number": 7}`, want: `{"to":{"number":7}}`},
		":= is JSON whatever the schema says":           {words: "name:=3", want: `{"name":3}`},
		":= passes names that the schema does not have": {words: "odd:=3", want: `{"odd":3}`},
		"@ is the text of a file":                       {words: "name=@text", want: `{"name":"line\n"}`},
		"a file may hold JSON":                          {words: "ids=@list", want: `{"ids":[1,2]}`},
		":=@ is a file of JSON":                         {words: "any:=@list", want: `{"any":[1,2]}`},
		"without a schema everything goes":              {words: "a=1\nb=x\nc.d=true\na=2", schema: " ", want: `{"a":[1,2],"b":"x","c.d":true}`},
		"a schema that is no schema is none":            {words: "a=1", schema: `[]`, want: `{"a":1}`},
		"no words are an empty object":                  {words: "", want: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := json.RawMessage(orderSchema)
			if c.schema != "" {
				schema = json.RawMessage(c.schema)
			}
			got, err := parseWords(lines(c.words), schema, testFiles)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWrongWordsSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ words, message, hint string }{
		"a wrong key names the nearest":       {"nmae=x", `unknown argument "nmae"`, "did you mean name?"},
		"a wrong key within an object too":    {"to.stret=x", `unknown argument "to.stret"`, "did you mean to.street?"},
		"a key like none lists all":           {"zzzzzzzzzzzz=x", `unknown argument "zzzzzzzzzzzz"`, "the arguments are any, count"},
		"a wrong type":                        {"count=many", `count is of type integer, and "many" is not`, "a whole number"},
		"an empty number":                     {"count=", `count is of type integer, and "" is not`, "a whole number"},
		"a wrong item":                        {"ids=1\nids=x", `ids is of type integer, and "x" is not`, "a whole number"},
		"one value given twice":               {"count=1\ncount=2", "count is set 2 times", "pass it once"},
		"JSON that is none":                   {"name:=x", "name is not valid JSON", `name:='"text"'`},
		"a whole and its part":                {"to={}\nto.number=1\nto.number:=2", "to.number is set 2 times", "pass it once"},
		"a part and its whole":                {"to.number=1\nto={}", "to is set both as a whole and in parts", "pass it once"},
		"a part of what is no object":         {"to:=1\nto.number=1", "to.number is part of to, which already has a value", "pass it once"},
		"a file that is no text":              {"name=@binary", "is not UTF-8 text", "pass a path"},
		"text that is none":                   {"name=\xff", "is not UTF-8 text", "pass a path"},
		"all mistakes come at once":           {"nmae=x\ncount=many", "\n", "did you mean name?"},
		"no word of the form key=value":       {"name", `"name" is not an argument of a call`, "key=value"},
		"a word without a key":                {"=x", `"=x" is not an argument of a call`, "key=value"},
		"a file that is not there names both": {"name=@none", "name: open none: no such file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseWords(lines(c.words), json.RawMessage(orderSchema), testFiles)
			if err == nil {
				t.Fatalf("accepted as %s", got)
			}
			if !strings.Contains(err.Error(), c.message) {
				t.Errorf("message %q lacks %q", err, c.message)
			}
			hint := toolroom.AsError(err).Hint
			if u, ok := errors.AsType[*usageError](err); ok {
				hint = u.hint
			}
			if !strings.Contains(hint, c.hint) {
				t.Errorf("hint %q lacks %q", hint, c.hint)
			}
		})
	}
}

func TestAWordAloneIsToldTheOnlyArgument(t *testing.T) {
	t.Parallel()
	_, err := parseWords([]string{"5"}, json.RawMessage(`{"properties":{"id":{"type":"integer"}}}`), testFiles)
	var u *usageError
	if !errors.As(err, &u) || !strings.Contains(u.hint, "write id=VALUE") {
		t.Errorf("%v", err)
	}
}

func TestAListOfObjectsIsWrittenAsJSON(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"properties":{"lines":{"type":"array","items":{"type":"object"}}}}`)
	got, err := parseWords([]string{"lines=pen"}, schema, testFiles)
	if err == nil {
		t.Fatalf("accepted as %s", got)
	}
	if e := toolroom.AsError(err); !strings.Contains(e.Message, "array of object") || !strings.Contains(e.Hint, `[{"key": 1}]`) {
		t.Errorf("%q %q", e.Message, e.Hint)
	}
	if got, err = parseWords([]string{`lines={"item": "pen"}`, `lines={"item": "ink"}`}, schema, testFiles); err != nil || string(got) != `{"lines":[{"item":"pen"},{"item":"ink"}]}` {
		t.Errorf("%s %v", got, err)
	}
}

func TestASchemaOfReferencesWithoutEndIsReadInBoundedTime(t *testing.T) {
	t.Parallel()
	schema := `{"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}`
	got, err := parseWords([]string{"x=1"}, json.RawMessage(schema), testFiles)
	if err != nil || string(got) != `{"x":1}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestAStepIsSplitAsAShellSplits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                             nil,
		"  a:b  x=1\ty=2 ":             {"a:b", "x=1", "y=2"},
		`a:b 'x=one two' "y=it's"`:     {"a:b", "x=one two", "y=it's"},
		`a:b x='one two'three y=\"\ z`: {"a:b", "x=one twothree", `y=" z`},
		`a:b '' ""`:                    {"a:b", "", ""},
		`a:b 'x=\n'`:                   {"a:b", `x=\n`},
	} {
		got, err := splitWords(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for _, text := range []string{`a 'b`, `a "b`, `a \`} {
		if got, err := splitWords(text); err == nil {
			t.Errorf("%q was split into %q", text, got)
		}
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func FuzzWordsBecomeAnObjectOrAnError(f *testing.F) {
	for _, words := range []string{"name=3", "to.number=1\nto={}", "ids=1\nids=x", "a:=[", "=", ":==", "to.to.=1", "to..a=1"} {
		f.Add(words, orderSchema)
	}
	f.Add("a.b=1", `{"properties":{"a":{"properties":{"b":{"$ref":"#"}}}}}`)
	f.Fuzz(func(t *testing.T, words, schema string) {
		got, err := parseWords(lines(words), json.RawMessage(schema), testFiles)
		if err != nil {
			return
		}
		doc, err := jsonx.Decode(got, jsonx.Limits{Bytes: 1 << 30, Depth: 1000})
		if _, ok := doc.(map[string]any); err != nil || !ok {
			t.Fatalf("%q made %s: %v", words, got, err)
		}
	})
}

func FuzzAQuotedStepComesBackWhole(f *testing.F) {
	f.Add("a:b", "x=one two", `it's`)
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{a, b, c}
		text := ""
		for _, word := range want {
			if !utf8.ValidString(word) {
				t.Skip("a command line of text")
			}
			text += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		got, err := splitWords(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFlagThatCannotBeReadSaysWhatItTakes(t *testing.T) {
	t.Parallel()
	c := (&cli{}).root()
	for flags, want := range map[string]string{
		"exec --memory 2K":                   `invalid argument "2K" for "--memory" flag: it is not a whole number`,
		"exec --memory 99999999999999999999": `invalid argument "99999999999999999999" for "--memory" flag: the number is too large`,
		"exec --cpus many":                   `invalid argument "many" for "--cpus" flag: it is not a number`,
		"call x:y --timeout 1d":              `invalid argument "1d" for "--timeout" flag: write it in h, m and s, such as 720h or 1h30m`,
		"call x:y --timeout soon":            `invalid argument "soon" for "--timeout" flag: write it in h, m and s, such as 720h or 1h30m`,
		"exec --json=maybe":                  `invalid argument "maybe" for "--json" flag: write true or false`,
	} {
		c.SetArgs(strings.Fields(flags))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

func TestPartsOfAResultAreShownInTheirOrder(t *testing.T) {
	t.Parallel()
	var both bytes.Buffer
	a := &cli{screen: newScreen(strings.NewReader(""), &both, &both)}
	a.screen.outTerminal = true
	image := toolroom.Content{Type: toolroom.ContentImage, Data: []byte("picture"), MIMEType: "image/png"}
	r := &toolroom.Result{Content: []toolroom.Content{toolroom.TextContent("before"), image, toolroom.TextContent("after")}}
	if err := a.printResult(r); err != nil {
		t.Fatal(err)
	}
	if want := "before\n[image image/png, 7 B; --json prints it]\nafter\n"; both.String() != want {
		t.Errorf("%q, want %q", both.String(), want)
	}
}

func TestAFailureIsPrintedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, out, told string }{
		{"one line", "no such object", "", "toolroom: git:show failed: no such object\n"},
		{"two paragraphs", "exit status 2: oops\n\nhello", "exit status 2: oops\n\nhello\n", "toolroom: git:show failed\n"},
	} {
		var out, told bytes.Buffer
		a := &cli{screen: newScreen(strings.NewReader(""), &out, &told)}
		r := &toolroom.Result{Content: []toolroom.Content{toolroom.TextContent(tt.text)}}
		r.Error = toolroom.Errorf(toolroom.CodeExecutionFailed, "git:show failed: %s", catalog.Shorten(tt.text, 2000))
		_ = a.reportResult("toolroom call", r, false)
		if out.String() != tt.out || told.String() != tt.told {
			t.Errorf("%s: %q, and told %q", tt.name, out.String(), told.String())
		}
	}
}

// What a tool has streamed need not be what it says at the end.
func TestAFailureAfterAStreamIsTold(t *testing.T) {
	t.Parallel()
	var out, told bytes.Buffer
	a := &cli{screen: newScreen(strings.NewReader(""), &out, &told)}
	r := &toolroom.Result{Content: []toolroom.Content{toolroom.TextContent("no such object")}}
	r.Error = toolroom.Errorf(toolroom.CodeExecutionFailed, "git:show failed: no such object")
	_ = a.reportResult("toolroom call", r, true)
	if want := "toolroom: git:show failed: no such object\n"; told.String() != want {
		t.Errorf("told %q, want %q", told.String(), want)
	}
}

func TestArgumentsThatWouldBeAcceptedAreShownAsTheyAreTyped(t *testing.T) {
	t.Parallel()
	e := toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of shell:exec do not fit").WithHint(`this would be accepted: {"command":"<command>"}`)
	e.Tool, e.Details = "shell:exec", map[string]any{"example": json.RawMessage(`{"command":"<command>"}`)}
	for _, command := range []string{"toolroom call", "toolroom tool test"} {
		if got, want := typedHints(command, e), "this would be accepted: "+command+" shell:exec 'command=<command>'"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAnImageIsNoBase64OnATerminal(t *testing.T) {
	t.Parallel()
	image := toolroom.Content{Type: toolroom.ContentImage, Data: []byte("picture"), MIMEType: "image/png"}
	value, err := json.Marshal([]toolroom.Content{image})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		terminal bool
		r        toolroom.Result
		out      string
	}{
		{true, toolroom.Result{Content: []toolroom.Content{image}, Value: value}, ""},
		{false, toolroom.Result{Content: []toolroom.Content{image}, Value: value}, string(value) + "\n"},
		{true, toolroom.Result{Content: []toolroom.Content{image}, Value: []byte(`{"width":7}`)}, "{\"width\":7}\n"},
		{true, toolroom.Result{Value: []byte(`[]`)}, "[]\n"},
	} {
		var out, told bytes.Buffer
		a := &cli{screen: newScreen(strings.NewReader(""), &out, &told)}
		a.screen.outTerminal = tt.terminal
		if err := a.printResult(&tt.r); err != nil {
			t.Fatal(err)
		}
		if out.String() != tt.out || len(tt.r.Content) > 0 && !strings.Contains(told.String(), "[image image/png, 7 B; --json prints it]") {
			t.Errorf("on a terminal %v: %q, and told %q", tt.terminal, &out, &told)
		}
	}
}

func TestTheValueOfAFlagIsOfTheSchemasType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ schema, text, want string }{
		{`{"type":"object"}`, `{"a": 1}`, `{"a": 1}`},
		{`{"type":"object"}`, `{`, ""},
		{`{"type":"integer"}`, "x", ""},
		{`{"type":"string"}`, "42", `"42"`},
		{`{"type":"string"}`, `"a"`, `"a"`},
		{`{"type":"string"}`, `a`, `"a"`},
		{`{"type":["string","null"]}`, `null`, `null`},
		{"", `{`, `"{"`},
		{"", `3`, `3`},
	} {
		got, err := parseValue("--expect", tt.text, json.RawMessage(tt.schema))
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s of %s is %s, %v, not %s", tt.text, tt.schema, got, err, tt.want)
		}
	}
}
