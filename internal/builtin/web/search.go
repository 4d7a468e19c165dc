package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/source"
)

// Search configures a provider of web search.
type Search struct {
	// Provider is brave, tavily, searxng or exa.
	Provider string
	// URL is the address of the provider; empty means the provider's own.
	URL string
	// Key returns the key of the provider.
	Key func(context.Context) (string, error)
	// Transport sends the requests.
	Transport http.RoundTripper
}

// addresses are the default addresses of the providers.
var addresses = map[string]string{"brave": "https://api.search.brave.com", "tavily": "https://api.tavily.com", "exa": "https://api.exa.ai"}

// Address returns the address of the provider.
func (s *Search) Address() string {
	return strings.TrimSuffix(cmp.Or(s.URL, addresses[s.Provider]), "/")
}

// SearchArgs are the arguments of web:search.
type SearchArgs struct {
	Query      string `json:"query" jsonschema:"what to search for"`
	Count      int    `json:"count,omitempty" jsonschema:"number of results"`
	Country    string `json:"country,omitempty" jsonschema:"country of the results, as a code of two letters such as DE"`
	SearchLang string `json:"searchLang,omitempty" jsonschema:"language of the results, as a code such as en"`
	SafeSearch string `json:"safeSearch,omitempty" jsonschema:"filter of adult content"`
	Freshness  string `json:"freshness,omitempty" jsonschema:"age of the results: pd past day, pw past week, pm past month, py past year"`
}

// NewsArgs are the arguments of web:search.news.
type NewsArgs struct {
	Query      string `json:"query" jsonschema:"what to search for"`
	Count      int    `json:"count,omitempty" jsonschema:"number of results"`
	Country    string `json:"country,omitempty" jsonschema:"country of the results, as a code of two letters such as DE"`
	SearchLang string `json:"searchLang,omitempty" jsonschema:"language of the results, as a code such as en"`
	Freshness  string `json:"freshness,omitempty" jsonschema:"age of the results: pd past day, pw past week, pm past month, py past year"`
}

// SearchResult is the value of both.
type SearchResult struct {
	Provider string `json:"provider" jsonschema:"the provider that answered"`
	Results  []Item `json:"results" jsonschema:"the results, best first"`
}

// Item is one result.
type Item struct {
	Title       string `json:"title" jsonschema:"title of the page"`
	URL         string `json:"url" jsonschema:"address of the page"`
	Description string `json:"description" jsonschema:"an excerpt"`
	Published   string `json:"published,omitempty" jsonschema:"date or age, as the provider writes it"`
}

func noProvider() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "no provider of web search is configured").
		WithHint("choose one in toolroom.yaml: builtin: {web: {search: {provider: brave, key: \"secret://brave/key\"}}}; or tavily, exa, or {provider: searxng, url: \"http://127.0.0.1:8888\"}, which needs no key")
}

func searchProperties() map[string]builtin.Property {
	return map[string]builtin.Property{
		"query": {"minLength": 1, "maxLength": 2000}, "count": {"minimum": 1, "maximum": 20, "default": 5},
		"country": {"pattern": "^[A-Za-z]{2}$"}, "searchLang": {"pattern": "^[A-Za-z]{2,3}(-[A-Za-z]{2,4})?$"},
		"freshness": {"enum": []string{"pd", "pw", "pm", "py"}},
	}
}

func (w *web) search() builtin.Tool {
	properties := searchProperties()
	properties["safeSearch"] = builtin.Property{"enum": []string{"off", "moderate", "strict"}}
	return builtin.MustTool(builtin.Spec[SearchArgs, SearchResult]{
		Tool: builtin.Define("web:search", "web", "Search the web",
			"Search the web or internet, google something: look up an answer online, find websites about a topic. Returns titles, addresses and excerpts; read one with web:fetch.",
			builtin.Hints(true, false, true), map[string]any{"query": "go os.Root symlink", "count": 3}),
		Arguments: properties,
		Predict:   func(_ *source.Request, _ SearchArgs) []toolroom.Effect { return w.searchEffects() },
		Run: func(ctx context.Context, _ *source.Request, in SearchArgs) (SearchResult, []toolroom.Content, error) {
			return w.runSearch(ctx, query{SearchArgs: in})
		},
	})
}

func (w *web) news() builtin.Tool {
	return builtin.MustTool(builtin.Spec[NewsArgs, SearchResult]{
		Tool: builtin.Define("web:search.news", "web", "Search news",
			"Search the latest news: recent news articles and today's headlines about a topic.",
			builtin.Hints(true, false, true), map[string]any{"query": "elections", "freshness": "pd"}),
		Arguments: searchProperties(),
		Predict:   func(_ *source.Request, _ NewsArgs) []toolroom.Effect { return w.searchEffects() },
		Run: func(ctx context.Context, _ *source.Request, in NewsArgs) (SearchResult, []toolroom.Content, error) {
			return w.runSearch(ctx, query{SearchArgs{Query: in.Query, Count: in.Count, Country: in.Country, SearchLang: in.SearchLang, Freshness: in.Freshness}, true})
		},
	})
}

func (w *web) searchEffects() []toolroom.Effect {
	if w.o.Search == nil {
		return nil
	}
	method := http.MethodGet
	if w.o.Search.Provider == "tavily" || w.o.Search.Provider == "exa" {
		method = http.MethodPost
	}
	return connectEffects(method, w.o.Search.Address())
}

// query is a search, for any provider.
type query struct {
	SearchArgs
	news bool
}

// hintUnreached adds the next step to the error of a provider that cannot be reached.
func hintUnreached(err error) error {
	if known, ok := errors.AsType[*toolroom.Error](err); ok && known.Code == toolroom.CodeUpstreamUnavailable {
		return known.WithHint("check that the provider runs, and builtin.web.search.url in toolroom.yaml")
	}
	return err
}

func (w *web) runSearch(ctx context.Context, q query) (SearchResult, []toolroom.Content, error) {
	s := w.o.Search
	if s == nil {
		return SearchResult{}, nil, noProvider()
	}
	q.Count = cmp.Or(q.Count, 5)
	key := ""
	if s.Key != nil {
		var err error
		if key, err = s.Key(ctx); err != nil {
			return SearchResult{}, nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 20*time.Second, errSlow)
	defer cancel()
	request, err := s.request(q, key)
	if err != nil {
		return SearchResult{}, nil, err
	}
	request.Header.Set("User-Agent", w.userAgent())
	request.Header.Set("Accept", "application/json")
	// A redirect would carry the key to another host.
	client := &http.Client{Transport: s.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request.WithContext(ctx))
	if err != nil {
		return SearchResult{}, nil, hintUnreached(failure(ctx, request.URL, 20*time.Second, err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return SearchResult{}, nil, hintUnreached(failure(ctx, request.URL, 20*time.Second, err))
	}
	if response.StatusCode != http.StatusOK {
		return SearchResult{}, nil, s.responseError(response.StatusCode, body)
	}
	items, err := s.parseItems(q, body)
	if known, ok := errors.AsType[*toolroom.Error](err); ok {
		return SearchResult{}, nil, known
	}
	if err != nil {
		return SearchResult{}, nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the answer of %s cannot be read: %w", s.Provider, err)
	}
	out := SearchResult{Provider: s.Provider, Results: items[:min(len(items), q.Count)]}
	return out, builtin.Text(out.text()), nil
}

// ages maps the values of freshness to days.
var ages = map[string]struct {
	name string
	days int
}{"pd": {"day", 1}, "pw": {"week", 7}, "pm": {"month", 31}, "py": {"year", 366}}

func (s *Search) request(q query, key string) (*http.Request, error) {
	switch s.Provider {
	case "brave":
		path, params := "/res/v1/web/search", url.Values{"q": {q.Query}, "count": {strconv.Itoa(q.Count)}}
		if q.news {
			path = "/res/v1/news/search"
		}
		setParam(params, "country", strings.ToUpper(q.Country))
		setParam(params, "search_lang", q.SearchLang)
		setParam(params, "safesearch", q.SafeSearch)
		setParam(params, "freshness", q.Freshness)
		return s.get(path, params, "X-Subscription-Token", key)
	case "searxng":
		params := url.Values{"q": {q.Query}, "format": {"json"}}
		if q.news {
			params.Set("categories", "news")
		}
		language := q.SearchLang
		if language != "" && q.Country != "" && !strings.Contains(language, "-") {
			language += "-" + strings.ToUpper(q.Country)
		}
		setParam(params, "language", language)
		setParam(params, "safesearch", map[string]string{"off": "0", "moderate": "1", "strict": "2"}[q.SafeSearch])
		setParam(params, "time_range", ages[q.Freshness].name)
		authorization := ""
		if key != "" {
			authorization = "Bearer " + key
		}
		return s.get("/search", params, "Authorization", authorization)
	case "tavily":
		body := map[string]any{"query": q.Query, "max_results": q.Count, "topic": "general"}
		if q.news {
			body["topic"] = "news"
		}
		if q.Freshness != "" {
			body["time_range"] = ages[q.Freshness].name
		}
		return s.post("/search", body, "Authorization", "Bearer "+key)
	default: // exa
		body := map[string]any{"query": q.Query, "numResults": q.Count, "contents": map[string]any{"text": map[string]any{"maxCharacters": 400}}}
		if q.news {
			body["category"] = "news"
		}
		if q.Country != "" {
			body["userLocation"] = strings.ToUpper(q.Country)
		}
		if q.Freshness != "" {
			body["startPublishedDate"] = time.Now().UTC().AddDate(0, 0, -ages[q.Freshness].days).Format(time.RFC3339)
		}
		return s.post("/search", body, "x-api-key", key)
	}
}

func setParam(params url.Values, name, value string) {
	if value != "" {
		params.Set(name, value)
	}
}

func (s *Search) get(path string, params url.Values, header, value string) (*http.Request, error) {
	request, err := http.NewRequest(http.MethodGet, s.Address()+path+"?"+params.Encode(), nil)
	if err == nil && value != "" {
		request.Header.Set(header, value)
	}
	return request, err
}

func (s *Search) post(path string, body map[string]any, header, value string) (*http.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodPost, s.Address()+path, bytes.NewReader(data))
	if err == nil {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(header, value)
	}
	return request, err
}

// responseError returns the error for a status other than 200.
func (s *Search) responseError(status int, body []byte) error {
	excerpt := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")), " ")
	e := toolroom.Errorf(toolroom.CodeUpstreamError, "%s answered %d %s: %s", s.Provider, status, http.StatusText(status), excerpt)
	e.Details = map[string]any{"status": status}
	switch {
	case status < http.StatusBadRequest:
		return e.WithHint("set builtin.web.search.url in toolroom.yaml to the address that it redirects to")
	case status == http.StatusTooManyRequests:
		e.Code, e.Retryable = toolroom.CodeRateLimited, true
		return e.WithHint("wait, or use another provider: builtin.web.search in toolroom.yaml")
	case status == http.StatusForbidden && s.Provider == "searxng":
		return e.WithHint("allow the format json in settings.yml of SearXNG: search: {formats: [html, json]}")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return e.WithHint("check builtin.web.search.key in toolroom.yaml")
	case status >= 500:
		e.Code, e.Retryable = toolroom.CodeUpstreamUnavailable, true
	}
	return e
}

// answer has the members of all providers' responses.
type answer struct {
	Web struct {
		Results []result `json:"results"`
	} `json:"web"`
	Results []result `json:"results"`
	// Unresponsive are SearXNG's engines that failed, each with the reason.
	Unresponsive [][]string `json:"unresponsive_engines"`
}

type result struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Content     string `json:"content"`
	Text        string `json:"text"`
	Age         string `json:"age"`
	PageAge     string `json:"page_age"`
	// The three spellings are those of SearXNG and Exa, and of Tavily.
	Published  string `json:"publishedDate"`
	Published2 string `json:"published_date"`
}

var tags = pattern.Lazy(`<[^<>]{0,200}>`)

func (s *Search) parseItems(q query, body []byte) ([]Item, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	list := a.Results
	if s.Provider == "brave" && !q.news {
		list = a.Web.Results
	}
	if len(list) == 0 && len(a.Unresponsive) > 0 {
		return nil, unresponsiveError(a.Unresponsive)
	}
	items := []Item{}
	for _, r := range list {
		text := html.UnescapeString(tags().ReplaceAllString(cmp.Or(r.Description, r.Content, r.Text), ""))
		if u, err := url.Parse(r.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			continue
		}
		items = append(items, Item{
			Title: html.UnescapeString(tags().ReplaceAllString(r.Title, "")), URL: r.URL,
			Description: strings.Join(strings.Fields(text), " "), Published: cmp.Or(r.Age, r.PageAge, r.Published, r.Published2),
		})
	}
	return items, nil
}

// unresponsiveError returns the error for a search in which engines of SearXNG failed. Without
// it, a failed search would look like one without results.
func unresponsiveError(engines [][]string) error {
	var list []string
	for _, e := range engines[:min(len(engines), 10)] {
		list = append(list, strings.ToValidUTF8(fmt.Sprintf("%.100s", strings.Join(e, ": ")), ""))
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the engines of SearXNG did not answer: %s", strings.Join(list, "; "))
	e.Retryable = true
	return e.WithHint("try later, or see which engines work at /stats of SearXNG")
}

func (r SearchResult) text() string {
	var b strings.Builder
	for i, item := range r.Results {
		fmt.Fprintf(&b, "%d. %s\n   %s\n", i+1, item.Title, item.URL)
		if item.Published != "" {
			fmt.Fprintf(&b, "   %s\n", item.Published)
		}
		if item.Description != "" {
			fmt.Fprintf(&b, "   %s\n", item.Description)
		}
	}
	if len(r.Results) == 0 {
		return "Nothing was found."
	}
	return b.String()
}
