package search_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/search"
)

// catalog is a small room of tools, each with a reason to be found.
func catalog() []search.Document {
	return []search.Document{
		{
			ID: "github:create_issue", Namespace: "github", Name: "create_issue", Title: "Open an issue",
			Description: "Report a bug or ask for a feature in a repository.",
			Source:      "github", SourceDescription: "Hosted version control",
			Tags:   []string{"tracker"},
			Schema: json.RawMessage(`{"type":"object","properties":{"assignee":{"type":"string","description":"login of the person in charge"}}}`),
		},
		{
			ID: "github:search", Namespace: "github", Name: "search",
			Description: "Look through code.",
		},
		{
			ID: "wiki:search", Namespace: "wiki", Name: "search",
			Description: "Look through pages.",
		},
		{
			ID: "weather:getForecast", Namespace: "weather", Name: "getForecast",
			Description: "Weather of the coming days.",
			Schema: json.RawMessage(`{"properties":{
				"unit":{"enum":["celsius","fahrenheit"]},
				"place":{"$ref":"#/$defs/place"}},
				"$defs":{"place":{"properties":{"latitude":{"type":"number"}}}}}`),
		},
		{ID: "shop:list_orders", Namespace: "shop", Name: "list_orders", Description: "All purchases of a customer."},
		{ID: "crypto:sha256", Namespace: "crypto", Name: "sha256", Description: "Digest of a text."},
		{ID: "crypto:sha1", Namespace: "crypto", Name: "sha1", Description: "Digest of a text, outdated."},
		{ID: "地图:查天气", Namespace: "地图", Name: "查天气", Description: "查询城市的天气预报"},
		{ID: "nameless_tool"},
		{ID: "café:réserver", Namespace: "café", Name: "réserver", Description: "Une table pour ce soir."},
	}
}

func newIndex(docs ...search.Document) *search.Index {
	var ix search.Index
	ix.Put(docs...)
	return &ix
}

func ids(hits []search.Hit) []string {
	var ids []string
	for _, h := range hits {
		ids = append(ids, h.ID)
	}
	return ids
}

func TestTheFirstHitIsTheToolThatIsMeant(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, query, want string }{
		{"snake case names are split", "create something", "github:create_issue"},
		{"camel case names are split", "forecast", "weather:getForecast"},
		{"camel case queries are split", "theWeatherForecast", "weather:getForecast"},
		{"plural finds singular", "issues", "github:create_issue"},
		{"singular finds plural", "order", "shop:list_orders"},
		{"-ing finds the verb", "creating", "github:create_issue"},
		{"a parameter's name is found", "assignee", "github:create_issue"},
		{"a parameter's description is found", "login", "github:create_issue"},
		{"a parameter inside $defs is found", "latitude", "weather:getForecast"},
		{"an enum value is found", "fahrenheit", "weather:getForecast"},
		{"a tag is found", "tracker", "github:create_issue"},
		{"a namespace is found", "crypto digest outdated", "crypto:sha1"},
		{"the description of the server is found", "version control", "github:create_issue"},
		{"a title is found", "open", "github:create_issue"},
		{"a synonym is found", "forecast fetch", "weather:getForecast"},
		{"letters with digits are a word", "sha256 of a string", "crypto:sha256"},
		{"a joined word finds its parts written as one", "GitHub code", "github:search"},
		{"a wrong letter is forgiven", "forecqst", "weather:getForecast"},
		{"a missing letter is forgiven", "forcast", "weather:getForecast"},
		{"swapped letters are forgiven", "froecast", "weather:getForecast"},
		{"two errors are forgiven in a long word", "farenhiet", "weather:getForecast"},
		{"the beginning of a word is enough", "lati", "weather:getForecast"},
		{"words of asking do not count", "can you please tell me what the weather is", "weather:getForecast"},
		{"Chinese text is found", "天气预报", "地图:查天气"},
		{"a lone character finds words that begin with it", "城", "地图:查天气"},
		{"accents do not matter", "reserver", "café:réserver"},
		{"a decomposed accent is an accent", "cafe\u0301", "café:réserver"},
		{"full width letters are letters", "ｆｏｒｅｃａｓｔ", "weather:getForecast"},
		{"an id stands for a missing name", "some nameless thing", "nameless_tool"},
		{"an exact id is first", "wiki:search", "wiki:search"},
		{"an exact name is first", "sha1", "crypto:sha1"},
		{"another spelling of a name is first", "Get forecast", "weather:getForecast"},
		{"another spelling of an id is first", "github.create-issue", "github:create_issue"},
	}
	ix := newIndex(catalog()...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hits := ix.Search(tt.query, search.Options{})
			if len(hits) == 0 || hits[0].ID != tt.want {
				t.Errorf("Search(%q) = %v, want %s first", tt.query, hits, tt.want)
			}
		})
	}
}

func TestNothingIsFoundWhereNothingMatches(t *testing.T) {
	t.Parallel()
	full := newIndex(catalog()...)
	tests := []struct {
		name  string
		index *search.Index
		query string
	}{
		{"empty query", full, ""},
		{"blank query", full, " \t\n"},
		{"only punctuation", full, "?!"},
		{"only words without meaning", full, "and of the"},
		{"unknown word", full, "xylophone"},
		{"short words are not corrected", full, "shz"},
		{"invalid UTF-8", full, "\xff\xfe"},
		{"empty index", newIndex(), "forecast"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if hits := tt.index.Search(tt.query, search.Options{}); hits != nil {
				t.Errorf("Search(%q) = %v, want nil", tt.query, hits)
			}
		})
	}
}

func TestAnExactIDOrNameBeatsAnyOtherMatch(t *testing.T) {
	t.Parallel()
	praise := strings.Repeat("get the weather ", 50)
	ix := newIndex(
		search.Document{ID: "get", Name: "get"},
		search.Document{ID: "a:get", Name: "get", Description: praise},
		search.Document{ID: "b", Name: "GET", Description: praise},
		search.Document{ID: "c", Name: "get_weather", Description: praise},
		search.Document{ID: "::", Name: "::"},
	)
	want := []string{"get", "a:get", "b", "c"}
	if diff := cmp.Diff(want, ids(ix.Search("get", search.Options{}))); diff != "" {
		t.Errorf("Search(get): -want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"::"}, ids(ix.Search(" :: ", search.Options{}))); diff != "" {
		t.Errorf("an id without letters: -want +got\n%s", diff)
	}
}

func TestAWordOfAskingIsSearchedWhenItIsAllThereIs(t *testing.T) {
	t.Parallel()
	ix := newIndex(search.Document{ID: "x", Name: "support", Description: "Get help."})
	if diff := cmp.Diff([]string{"x"}, ids(ix.Search("help", search.Options{}))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAHitSaysWhichWordMatchedWhere(t *testing.T) {
	t.Parallel()
	ix := newIndex(catalog()...)
	tests := []struct {
		query string
		want  []toolroom.Match
	}{
		{"weather for fahrenheit, forcast", []toolroom.Match{
			{Term: "weather", Field: search.FieldDescription.String()},
			{Term: "weather", Field: search.FieldSource.String()},
			{Term: "fahrenheit", Field: search.FieldEnum.String()},
			{Term: "forcast", Field: search.FieldName.String()},
		}},
		{"retrieve latitudes", []toolroom.Match{
			{Term: "latitudes", Field: search.FieldParameter.String()},
			{Term: "retrieve", Field: search.FieldName.String()},
		}},
		{"weather:getForecast", []toolroom.Match{
			{Term: "weather:getForecast", Field: search.FieldID.String()},
			{Term: "weather", Field: search.FieldDescription.String()},
			{Term: "weather", Field: search.FieldSource.String()},
			{Term: "forecast", Field: search.FieldName.String()},
			{Term: "getforecast", Field: search.FieldName.String()},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			t.Parallel()
			hit := ix.Search(tt.query, search.Options{Limit: 1})[0]
			if diff := cmp.Diff(tt.want, hit.Why); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestAHitIsReadableAsJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(search.Hit{ID: "a:b", Score: 1.5, Why: []toolroom.Match{{Term: "b", Field: search.FieldName.String()}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"a:b","score":1.5,"why":[{"term":"b","field":"name"}]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEqualScoresAreOrderedByID(t *testing.T) {
	t.Parallel()
	var ix search.Index
	var want []string
	for i := range 500 {
		ix.Put(search.Document{ID: fmt.Sprintf("t%03d", 499-i), Name: "same"})
		want = append(want, fmt.Sprintf("t%03d", i))
	}
	for _, limit := range []int{1, 10, 499, 500, 1 << 40} {
		got := ids(ix.Search("the same", search.Options{Limit: limit}))
		if diff := cmp.Diff(want[:min(limit, 500)], got); diff != "" {
			t.Errorf("limit %d: -want +got\n%s", limit, diff)
		}
	}
}

func TestTheFilterLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	ix := newIndex(catalog()...)
	hits := ix.Search("search", search.Options{
		Limit:  1,
		Filter: func(id string) bool { return id != "github:search" },
	})
	if diff := cmp.Diff([]string{"wiki:search"}, ids(hits)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnUnsetLimitIsTen(t *testing.T) {
	t.Parallel()
	var ix search.Index
	for i := range 20 {
		ix.Put(search.Document{ID: fmt.Sprint(i), Name: "same"})
	}
	for _, limit := range []int{0, -1} {
		if got := len(ix.Search("same", search.Options{Limit: limit})); got != 10 {
			t.Errorf("limit %d: %d hits, want 10", limit, got)
		}
	}
}

func TestAHostileToolIsStillFoundByItsName(t *testing.T) {
	t.Parallel()
	nest := func(open, end string, n int) string { return strings.Repeat(open, n) + "{}" + strings.Repeat(end, n) }
	var values, properties []string
	for i := range 50_000 {
		values = append(values, fmt.Sprintf("%q", fmt.Sprint("v", i)))
		properties = append(properties, fmt.Sprintf(`"p%d":true`, i))
	}
	schemas := map[string]string{
		"no JSON":             `{"properties":`,
		"not UTF-8":           "{\"description\":\"\xff\"}",
		"wrong types":         `{"properties":[1,null],"enum":"x","items":3,"$defs":7,"description":{},"anyOf":"y"}`,
		"a boolean":           `true`,
		"null":                `null`,
		"deep items":          nest(`{"items":`, `}`, 3_000),
		"deeper than JSON is": nest(`{"items":`, `}`, 100_000),
		"deep lists":          nest(`[`, `]`, 9_000),
		"many properties":     `{"properties":{` + strings.Join(properties, ",") + `}}`,
		"many values":         `{"enum":[` + strings.Join(values, ",") + `]}`,
		"a reference to self": `{"$ref":"#","properties":{"a":{"$ref":"#"}}}`,
		"over a megabyte":     `{"description":"` + strings.Repeat("x ", 1<<20) + `"}`,
	}
	for name, schema := range schemas {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ix := newIndex(search.Document{ID: "bad", Name: "landmine", Schema: json.RawMessage(schema)})
			if diff := cmp.Diff([]string{"bad"}, ids(ix.Search("find the landmine", search.Options{}))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestAServerNamedAsItsNamespaceCountsOnce(t *testing.T) {
	t.Parallel()
	ix := newIndex(
		search.Document{ID: "once", Namespace: "github", Name: "x"},
		search.Document{ID: "twice", Namespace: "github", Name: "x", Source: "github"},
	)
	hits := ix.Search("github", search.Options{})
	if len(hits) != 2 || hits[0].Score != hits[1].Score {
		t.Errorf("got %v, want equal scores", hits)
	}
}

func TestATooLargeToolIsReadToItsBound(t *testing.T) {
	t.Parallel()
	deep := `{"properties":{"abyss":{}}}`
	for range 20 {
		deep = `{"items":` + deep + `}`
	}
	ix := newIndex(
		search.Document{ID: "deep", Name: "hole", Schema: json.RawMessage(`{"properties":{"rim":{},"wall":` + deep + `}}`)},
		search.Document{ID: "wide", Name: "plain", Tags: append(slices.Repeat([]string{"grass"}, 10_000), "horizon")},
	)
	for query, want := range map[string][]string{
		"rim": {"deep"}, "abyss": nil,
		"grass": {"wide"}, "horizon": nil,
	} {
		if diff := cmp.Diff(want, ids(ix.Search(query, search.Options{}))); diff != "" {
			t.Errorf("Search(%q): -want +got\n%s", query, diff)
		}
	}
}

func TestALongTextIsReadToItsBound(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("tiresome ", 1<<20)
	ix := newIndex(
		search.Document{ID: "long", Description: "alpha " + long + " omega"},
		search.Document{ID: "short", Description: "gamma"},
	)
	tests := []struct {
		name, query string
		want        []string
	}{
		{"the beginning of a document", "alpha", []string{"long"}},
		{"not its far end", "omega", nil},
		{"the beginning of a query", "gamma " + strings.Repeat("unheardof ", 1<<20), []string{"short"}},
		{"not its far end", strings.Repeat("unheardof ", 1<<20) + "gamma", nil},
		{"64 different words", distinct(63) + "gamma", []string{"short"}},
		{"not the 65th", distinct(64) + "gamma", nil},
		{"8 unknown words are corrected", distinct(7) + "gammma", []string{"short"}},
		{"not the ninth", distinct(8) + "gammma", nil},
		{"one endless word", strings.Repeat("z", 10<<20), nil},
		{"marks without end", "gamma" + strings.Repeat("\u0301", 1<<20), []string{"short"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, ids(ix.Search(tt.query, search.Options{}))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// distinct returns n different words, each with a space behind it.
func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "un%c%cheard ", 'a'+i/26, 'a'+i%26)
	}
	return b.String()
}

func TestAFieldNameIsWrittenAsText(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(search.FieldParameter); got != "parameter" {
		t.Errorf("got %q", got)
	}
}

func ExampleIndex_Search() {
	var ix search.Index
	ix.Put(
		search.Document{ID: "file:read", Name: "read", Description: "Returns the text of a file."},
		search.Document{ID: "mail:send", Name: "send", Description: "Sends a message to people."},
	)
	for _, hit := range ix.Search("post a message", search.Options{}) {
		fmt.Println(hit.ID, hit.Why)
	}
	// Output: mail:send [{message description} {post name} {post description}]
}
