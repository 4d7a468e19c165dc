package openapi_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/source/openapi"
	"github.com/toolroom/toolroom/test/double"
)

func openStore(t *testing.T, auth map[string]string) *openapi.Source {
	t.Helper()
	server := httptest.NewServer(double.NewPetstore())
	t.Cleanup(server.Close)
	return open(t, openapi.Config{Spec: write(t, string(double.PetstoreDocument)), BaseURL: server.URL + "/v1", Auth: auth})
}

func tools(t *testing.T, s *openapi.Source) map[string]toolroom.Tool {
	t.Helper()
	list, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]toolroom.Tool{}
	for _, tool := range list {
		byName[tool.ID.Name] = tool
		for _, text := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			if len(text) == 0 {
				continue
			}
			if _, err := schema.Compile(text, schema.Limits{}); err != nil {
				t.Errorf("%s: %v in\n%s", tool.ID, err, text)
			}
		}
	}
	return byName
}

func sameJSON(t *testing.T, what, want string, got []byte) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: want: %v", what, err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: got %s: %v", what, got, err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAStoreIsUsedFromEndToEnd(t *testing.T) {
	t.Parallel()
	s := openStore(t, auth)

	created, err := call(t, s, "createPet", `{"name":"Kit","species":"cat","weight":null,"mother":{"name":"Tom","species":"cat"}}`)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "created", `{"id":100,"name":"Kit","species":"cat","mother":{"id":0,"name":"Tom","species":"cat"}}`, created.Value)
	again, err := call(t, s, "createPet", `{"name":"Kit","species":"cat"}`)
	if err != nil || string(again.Value) != string(created.Value) {
		t.Errorf("the same idempotency key gave %s, %v", again.Value, err)
	}

	page, err := call(t, s, "listPets", `{"limit":1,"tag":["old"],"filter":{"species":"dog"}}`)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "filtered", `{"pets":[{"id":2,"name":"Rex","species":"dog","tags":["old"]}],"next_cursor":null}`, page.Value)

	page, err = call(t, s, "listPets", `{"limit":1}`)
	if err != nil {
		t.Fatal(err)
	}
	if last := page.Content[len(page.Content)-1].Text; last != "There is a next page: cursor=1&limit=1" {
		t.Errorf("the end of the page says %q", last)
	}

	photo := base64.StdEncoding.EncodeToString([]byte("\x89PNG\x00"))
	set, err := call(t, s, "setPhoto", `{"id":2,"image":"`+photo+`","caption":"say \"cheese\""}`)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "photo", `{"bytes":5,"caption":"say \"cheese\""}`, set.Value)
	shown, err := call(t, s, "getPhoto", `{"id":2}`)
	if err != nil || len(shown.Content) != 1 || shown.Content[0].Type != toolroom.ContentImage || string(shown.Content[0].Data) != "\x89PNG\x00" {
		t.Errorf("got %+v, %v", shown, err)
	}

	if removed, err := call(t, s, "deletePet", `{"id":2}`); err != nil || len(removed.Value) != 0 {
		t.Errorf("got %+v, %v", removed, err)
	}
	if _, err := call(t, s, "getPet", `{"id":2}`); toolroom.CodeOf(err) != toolroom.CodeUpstreamError {
		t.Errorf("a pet that was removed gives %v", err)
	}
}

func TestTheToolsOfAStoreSayWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	found := tools(t, openStore(t, auth))

	// The field id of the body is read-only, so that the parameter has the name
	// for itself.
	sameJSON(t, "the fields of a body stand beside the parameters", `{
		"type": "object",
		"properties": {
			"id": {"type": "integer", "format": "int64"},
			"name": {"type": "string", "minLength": 1},
			"species": {"type": "string", "enum": ["cat", "dog", "fish"]},
			"tags": {"type": "array", "items": {"type": "string"}},
			"weight": {"type": ["number", "null"], "exclusiveMinimum": 0},
			"mother": {"$ref": "#/$defs/Pet"}
		},
		"required": ["id", "name", "species"],
		"$defs": {
			"Named": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "minLength": 1}}},
			"Pet": {
				"description": "An animal in the store.",
				"allOf": [{"$ref": "#/$defs/Named"}, {
					"type": "object",
					"required": ["species"],
					"properties": {
						"species": {"type": "string", "enum": ["cat", "dog", "fish"]},
						"tags": {"type": "array", "items": {"type": "string"}},
						"weight": {"type": ["number", "null"], "exclusiveMinimum": 0},
						"mother": {"$ref": "#/$defs/Pet"}
					}
				}]
			}
		}
	}`, found["replacePet"].InputSchema)

	create := found["createPet"]
	if create.RepeatGuarantee() != toolroom.GuaranteeKeyed || strings.Contains(string(create.InputSchema), "Idempotency") {
		t.Errorf("createPet: guarantee %s, schema %s", create.RepeatGuarantee(), create.InputSchema)
	}
	if list := found["listPets"]; !list.Hints.IsReadOnly() || list.OutputSchema == nil {
		t.Errorf("listPets: hints %+v, output schema %s", list.Hints, list.OutputSchema)
	}
	if remove := found["deletePet"]; !remove.Hints.IsDestructive() || !remove.Hints.IsIdempotent() {
		t.Errorf("deletePet: hints %+v", remove.Hints)
	}
	if wait := found["wait"]; !strings.Contains(wait.Notes, "deprecated") || wait.Tags[0] != "deprecated" {
		t.Errorf("wait: notes %q, tags %q", wait.Notes, wait.Tags)
	}
	want := "The answer comes in pages: cursor continues where the last answer ended; limit is how many to give; " +
		"next_cursor of the answer says whether and where it goes on; when there is a next page, the answer ends with what to ask for it."
	if got := found["listPets"].Notes; got != want {
		t.Errorf("notes: got %q, want %q", got, want)
	}
	if note := tools(t, openStore(t, nil))["deletePet"].Notes; !strings.Contains(note, "set auth of the source for admin") {
		t.Errorf("without credentials the notes are %q", note)
	}
}

func TestWithoutCredentialsTheErrorSaysWhichToSet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		auth map[string]string
		hint string
	}{
		"none":  {nil, `auth: {key: "secret://pets/key"}`},
		"wrong": {map[string]string{"key": "wrong-key"}, "check the credentials in auth of the source: key"},
	} {
		_, err := call(t, openStore(t, test.auth), "getPet", `{"id":2}`)
		var typed *toolroom.Error
		if !errors.As(err, &typed) || !strings.Contains(typed.Hint, test.hint) {
			t.Errorf("%s: got %v with hint %q", name, err, toolroom.AsError(err).Hint)
		}
	}
}

func TestOperationsAreSelected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		include, exclude []string
		want             int
	}{
		"all":                       {nil, nil, 8},
		"by operationId":            {[]string{"*Pet"}, nil, 4},
		"by method and path":        {[]string{"GET /pets*"}, nil, 3},
		"by tag":                    {[]string{"tag:photos"}, nil, 2},
		"exclude wins":              {[]string{"*"}, []string{"tag:pets", "wait"}, 2},
		"a star in the middle":      {[]string{"* /pets/*/photo"}, nil, 2},
		"nothing is like that name": {[]string{"Pet"}, nil, 0},
	} {
		s := open(t, openapi.Config{
			Spec: write(t, string(double.PetstoreDocument)), Include: test.include, Exclude: test.exclude,
		})
		if got := len(tools(t, s)); got != test.want {
			t.Errorf("%s: got %d operations, want %d", name, got, test.want)
		}
	}
}
