package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
)

func TestListsShowWhatTheCallerMayCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("a:secret", nothing)
	b.add("a:hidden", nothing)
	b.add("a:one", nothing)
	b.add("a:two", nothing)
	var ids []string
	next := ""
	for {
		var page struct {
			Tools []struct{ ID string }
			Next  string
		}
		b.get("/tools?limit=1&cursor="+next).into(t, &page)
		for _, tool := range page.Tools {
			ids = append(ids, tool.ID)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	if got := strings.Join(ids, " "); got != "a:one a:two echo:it" {
		t.Errorf("the list is %s", got)
	}
	if r := b.get("/tools/a:secret"); r.status != http.StatusForbidden {
		t.Errorf("a denied tool is described: %d", r.status)
	}
	if r := b.get("/tools/a.hidden?level=full&form=code"); r.status != http.StatusOK || !strings.Contains(r.body, "await tools.a.hidden(") {
		t.Errorf("a hidden tool cannot be described: %d %s", r.status, r.body)
	}
	if r := b.get("/tools?namespace=none"); r.status != http.StatusOK || !strings.Contains(r.body, `"tools":[]`) {
		t.Errorf("an empty list: %d %s", r.status, r.body)
	}
}

func TestReceiptsAreSeenByTheirCallerAndByOperators(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, who := range []string{"alice", "bob", ""} {
		if r := b.as(who, http.MethodPost, "/api/v1/call", `{"tool": "echo:it"}`); r.status != http.StatusOK {
			t.Fatal(r.body)
		}
	}
	for who, want := range map[string]int{"alice": 1, "bob": 1, "carol": 0, "olga": 3, "": 3} {
		var page struct {
			Calls []struct{ ID, Surface string }
		}
		b.as(who, http.MethodGet, "/api/v1/calls", "").into(t, &page)
		if len(page.Calls) != want {
			t.Errorf("%q sees %d calls, not %d", who, len(page.Calls), want)
		}
		for _, c := range page.Calls {
			if c.Surface != "http" {
				t.Errorf("the surface of %s is %s", c.ID, c.Surface)
			}
		}
	}
	if r := b.as("alice", http.MethodGet, "/api/v1/calls?subject=bob", ""); r.status != http.StatusForbidden {
		t.Errorf("alice asks for bob's calls: %d", r.status)
	}
	var page struct {
		Calls []struct{ Seq int64 }
		Next  string
	}
	b.get("/calls?limit=2").into(t, &page)
	if page.Next != "2" || len(page.Calls) != 2 {
		t.Errorf("the first page is %+v", page)
	}
}

func TestArtifactsBelongToTheirOwner(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const content = "<script>alert(1)</script>"
	r := b.as("alice", http.MethodPost, "/api/v1/artifacts?name=x.html", content, "Content-Type", "text/html")
	location := r.header.Get("Location")
	if r.status != http.StatusCreated || location == "" {
		t.Fatalf("%d %s", r.status, r.body)
	}
	var about toolroom.Artifact
	b.as("alice", http.MethodGet, location, "").into(t, &about)
	if about.Size != int64(len(content)) || about.MIMEType != "text/html" || about.Name != "x.html" {
		t.Errorf("the artifact is %+v", about)
	}
	short := location[:len(location)-1]
	if r := b.as("alice", http.MethodGet, short, ""); r.status != http.StatusOK {
		t.Errorf("the beginning of the handle: %d %s", r.status, r.body)
	}
	if r := b.as("alice", http.MethodGet, short+"/content?offset=1&limit=6", ""); !strings.Contains(r.body, `"text":"script"`) {
		t.Errorf("the page of the beginning is %s", r.body)
	}
	if r := b.as("bob", http.MethodGet, short, ""); r.status != http.StatusNotFound {
		t.Errorf("bob reads the beginning: %d", r.status)
	}
	if r := b.as("alice", http.MethodGet, location+"/content?offset=1&limit=6", ""); !strings.Contains(r.body, `"text":"script"`) {
		t.Errorf("the page is %s", r.body)
	}
	for _, how := range [][]string{{"?raw=true"}, {"", "Accept", "application/octet-stream"}} {
		r := b.as("alice", http.MethodGet, location+"/content"+how[0], "", how[1:]...)
		if r.body != content || r.header.Get("Content-Type") != "application/octet-stream" || r.header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(r.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("the bytes: %v %s", r.header, r.body)
		}
	}
	for query, want := range map[string]string{"offset=1&limit=6": content[1:7], "offset=4": content[4:], "limit=3": content[:3], "offset=9999": ""} {
		if r := b.as("alice", http.MethodGet, location+"/content?raw=true&"+query, ""); r.body != want {
			t.Errorf("the bytes of %s: %q, want %q", query, r.body, want)
		}
	}
	if r := b.as("alice", http.MethodGet, location+"/content?raw=true&grep=x", ""); r.status != http.StatusBadRequest && r.status != http.StatusUnprocessableEntity {
		t.Errorf("bytes that match a pattern: %d %s", r.status, r.body)
	}
	for _, path := range []string{location, location + "/content", location + "/content?raw=true"} {
		if r := b.as("bob", http.MethodGet, path, ""); r.status != http.StatusNotFound {
			t.Errorf("bob reads %s: %d", path, r.status)
		}
	}
	if r := b.as("bob", http.MethodGet, location+"?owner=alice", ""); r.status != http.StatusForbidden {
		t.Errorf("bob asks as alice: %d", r.status)
	}
	if r := b.as("olga", http.MethodGet, location+"?owner=alice", ""); r.status != http.StatusOK {
		t.Errorf("an operator asks: %d %s", r.status, r.body)
	}
	if r := b.as("alice", http.MethodDelete, location, ""); r.status != http.StatusNoContent {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	if r := b.as("alice", http.MethodGet, "/api/v1/artifacts", ""); !strings.Contains(r.body, `"artifacts":[]`) {
		t.Errorf("the list is %s", r.body)
	}
}

func TestAQuestionIsAnsweredByAnApproverAndNeverByWhoAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("do:risky", nothing)
	// Carol may approve, and makes the call here.
	r := b.as("carol", http.MethodPost, "/api/v1/tools/do:risky/call", `{"no_wait": true}`)
	var result toolroom.Result
	r.into(t, &result)
	if r.status != http.StatusForbidden || result.Error.Code != toolroom.CodeApprovalRequired {
		t.Fatalf("%d %s", r.status, r.body)
	}
	path := "/api/v1/approvals/" + result.Error.Approval
	for _, c := range []struct {
		who, body string
		want      int
	}{
		{"bob", `{"approve": true}`, http.StatusNotFound},
		{"olga", `{"approve": true}`, http.StatusForbidden},
		{"carol", `{"approve": true}`, http.StatusForbidden},
		{"", `{"comment": "hm"}`, http.StatusUnprocessableEntity},
		{"", `{"approve": true, "comment": "go on"}`, http.StatusOK},
		{"", `{"approve": false}`, http.StatusConflict},
	} {
		if r := b.as(c.who, http.MethodPost, path, c.body); r.status != c.want {
			t.Errorf("%q sends %s: %d, not %d: %s", c.who, c.body, r.status, c.want, r.body)
		}
	}
	var answered struct{ State, By, Comment string }
	b.as("carol", http.MethodGet, path, "").into(t, &answered)
	if answered.State != "approved" || answered.By != "local" || answered.Comment != "go on" {
		t.Errorf("the approval is %+v", answered)
	}
	if r := b.as("carol", http.MethodPost, "/api/v1/tools/do:risky/call", `{"no_wait": true}`); r.status != http.StatusOK {
		t.Errorf("the approved call: %d %s", r.status, r.body)
	}
}

func TestAnApproverThatIsBoundSeesAndAnswersWhatItIsBoundTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("do:risky", nothing)
	asked := map[string]string{} // the caller of each question
	for _, who := range []string{"alice", "dana", "reader"} {
		var result toolroom.Result
		b.as(who, http.MethodPost, "/api/v1/tools/do:risky/call", `{"no_wait": true}`).into(t, &result)
		asked[result.Error.Approval] = who
	}
	for who, want := range map[string][]string{"tess": {"dana"}, "sets": {"reader"}, "carol": {"alice", "dana", "reader"}} {
		var list struct{ Approvals []toolroom.Approval }
		b.as(who, http.MethodGet, "/api/v1/approvals", "").into(t, &list)
		var seen []string
		for _, a := range list.Approvals {
			seen = append(seen, asked[a.ID])
		}
		slices.Sort(seen)
		if !slices.Equal(seen, want) {
			t.Errorf("%s sees the questions of %v, not %v", who, seen, want)
		}
		for id, by := range asked {
			status := http.StatusNotFound
			if slices.Contains(want, by) {
				status = http.StatusOK
			}
			if r := b.as(who, http.MethodGet, "/api/v1/approvals/"+id, ""); r.status != status {
				t.Errorf("%s reads the question of %s: %d", who, by, r.status)
			}
			if r := b.as(who, http.MethodPost, "/api/v1/approvals/"+id, `{"approve": true}`); status == http.StatusNotFound && r.status != status {
				t.Errorf("%s answers the question of %s: %d %s", who, by, r.status, r.body)
			}
		}
	}
}

func TestACallThatWaitsForAPersonGoesOnWhenOneApproves(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("do:risky", nothing)
	res := b.open(t.Context(), "alice", http.MethodPost, "/api/v1/tools/do:risky/call?stream=true", `{}`)
	list := events(t, res.Body, func(e toolroom.Event) bool {
		if e.Kind == toolroom.EventApproval && e.Approval.State == "pending" {
			if r := b.as("carol", http.MethodPost, "/api/v1/approvals/"+e.Approval.ID, `{"approve": true}`); r.status != http.StatusOK {
				t.Errorf("carol's answer: %d %s", r.status, r.body)
			}
		}
		return e.Final()
	})
	if got := kinds(list); got != "called approval approval done" {
		t.Errorf("the events are %s", got)
	}
}

func TestAllCallsAreFollowedByOperatorsAndOnesOwnByOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options, _ *run.Options) {
		o.Owner = func(e *toolroom.Event) toolroom.Identity {
			return toolroom.Identity{Subject: strings.TrimPrefix(e.Tool, "of:")}
		}
	})
	b.add("of:alice", nothing)
	b.add("of:bob", nothing)
	follow := func(who, query string) *http.Response {
		return b.open(t.Context(), who, http.MethodGet, "/api/v1/events"+query, "")
	}
	operator, alice := follow("", "?kind=done&kind=error"), follow("alice", "")
	for _, tool := range []string{"of:bob", "of:alice", "of:bob"} {
		b.post("/call", `{"tool": "`+tool+`"}`)
	}
	n := 0
	seen := events(t, operator.Body, func(toolroom.Event) bool { n++; return n == 3 })
	if kinds(seen) != "done done done" || seen[1].Tool != "of:alice" {
		t.Errorf("the operator sees %s", kinds(seen))
	}
	for _, e := range events(t, alice.Body, func(e toolroom.Event) bool { return e.Final() }) {
		if e.Tool != "of:alice" {
			t.Errorf("alice sees %s of %s", e.Kind, e.Tool)
		}
	}
}

func TestWithoutOwnersOnlyOperatorsFollowAllCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if r := b.as("alice", http.MethodGet, "/api/v1/events", ""); r.status != http.StatusNotImplemented {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestWhoNamesItselfAsTheOwnerStaysNarrowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := func(query string) string {
		var kept toolroom.Artifact
		b.as("alice", http.MethodPost, "/api/v1/artifacts"+query, "text", "Toolroom-Agent", "slow").into(t, &kept)
		return kept.Handle[len("art_a"):] // the handles of the double end with their owner
	}
	if unnamed, named := owner(""), owner("?owner=alice"); named != unnamed || !strings.Contains(named, "slow") {
		t.Errorf("the owner is %q if nobody is named, and %q if it names itself", unnamed, named)
	}
}

func TestTheEventsOfACallThatHasEndedAreItsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var result toolroom.Result
	b.post("/call", `{"tool": "echo:it"}`).into(t, &result)
	res := b.open(t.Context(), "", http.MethodGet, "/api/v1/calls/"+result.Call+"/events", "")
	if list := events(t, res.Body, nil); kinds(list) != "done" || list[0].Result.Status != toolroom.StatusOK {
		t.Errorf("the events are %s", kinds(list))
	}
}

func TestPolicyIsExplainedForOthersToOperatorsOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options, _ *run.Options) {
		o.Explain = func(_ context.Context, tool string, who toolroom.Identity, _ json.RawMessage) (*policy.Explanation, error) {
			return &policy.Explanation{Decision: policy.Decision{Effect: toolroom.VerdictAllow, Rule: tool + " by " + who.Agent, Steps: []toolroom.PolicyStep{{Layer: "tools", Effect: toolroom.VerdictAllow}}}}, nil
		}
	})
	r := b.as("", http.MethodGet, "/api/v1/policy/explain?tool=echo:it&agent=fast", "", "Toolroom-Agent", "slow")
	if r.status != http.StatusOK || !strings.Contains(r.body, "echo:it by fast") {
		t.Errorf("the operator asks: %d %s", r.status, r.body)
	}
	r = b.as("alice", http.MethodGet, "/api/v1/policy/explain?tool=echo:it&agent=fast", "", "Toolroom-Agent", "slow")
	if r.status != http.StatusForbidden {
		t.Errorf("alice asks as another agent: %d %s", r.status, r.body)
	}
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	sources := []api.Source{{Name: "slow"}, {Name: "broken", Error: "no such program"}, {Name: "good", Listed: true}}
	b := newBench(t, func(o *api.Options, _ *run.Options) { o.Sources = func() []api.Source { return sources } })
	r := b.as("", http.MethodGet, "/readyz", "")
	var ready api.Readiness
	r.into(t, &ready)
	if r.status != http.StatusServiceUnavailable || ready.Ready || ready.Missing["sources"] != "not listed yet: slow" {
		t.Errorf("%d %s", r.status, r.body)
	}
	sources[0].Listed = true
	if r := b.as("", http.MethodGet, "/readyz", ""); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.memory.mu.Lock()
	b.memory.unready = toolroom.Errorf(toolroom.CodeInternal, "the disk is full")
	b.memory.mu.Unlock()
	r = b.as("", http.MethodGet, "/readyz", "")
	if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "the disk is full") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := b.as("", http.MethodGet, "/healthz", ""); r.status != http.StatusOK {
		t.Errorf("alive: %d", r.status)
	}
	if r := b.as("alice", http.MethodGet, "/api/v1/sources", ""); r.status != http.StatusForbidden {
		t.Errorf("alice sees the sources: %d", r.status)
	}
	if r := b.get("/sources"); !strings.Contains(r.body, "no such program") {
		t.Errorf("the sources are %s", r.body)
	}
}

func TestMetricsCountCallsWithBoundedLabels(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options, _ *run.Options) {
		o.Sources = func() []api.Source { return nil }
	})
	b.post("/call", `{"tool": "echo:it"}`)
	for _, made := range []string{"up:a", "up:b", "not an id"} {
		tool, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		b.post("/call", `{"tool": `+string(tool)+`}`)
	}
	if r := b.as("bob", http.MethodGet, "/metrics", ""); strings.Contains(r.body, "toolroom_") {
		t.Errorf("bob, who is no operator, sees %s", r.body)
	}
	r := b.as("", http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`toolroom_calls_total{status="ok",surface="http",tool="echo:it"} 1`,
		`toolroom_calls_total{status="error",surface="http",tool="unknown"} 3`,
		`toolroom_call_seconds_count{source="go",status="ok"} 1`,
		`toolroom_calls_running 0`,
		`toolroom_receipts_queued 7`,
		`toolroom_approvals_pending 0`,
	} {
		if !strings.Contains(r.body, line+"\n") {
			t.Errorf("the metrics do not say %s", line)
		}
	}
	if t.Failed() {
		t.Log(r.body)
	}
}

func TestARuleOfAnApprovalIsSeenAndTakenBackByItsCallerAndByOperators(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("do:risky", nothing)
	var result toolroom.Result
	b.as("carol", http.MethodPost, "/api/v1/tools/do:risky/call", `{"no_wait": true}`).into(t, &result)
	if r := b.as("", http.MethodPost, "/api/v1/approvals/"+result.Error.Approval, `{"approve": true, "scope": "always"}`); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	rules := func(who string) []toolroom.Grant {
		var list struct{ Rules []toolroom.Grant }
		b.as(who, http.MethodGet, "/api/v1/approvals/rules", "").into(t, &list)
		return list.Rules
	}
	mine := rules("carol")
	if len(mine) != 1 || mine[0].Tool != "do:risky" || mine[0].Scope != toolroom.ScopeAlways || mine[0].By != "local" {
		t.Fatalf("carol sees %+v", mine)
	}
	if len(rules("")) != 1 || len(rules("bob")) != 0 {
		t.Errorf("the operator sees %v, bob %v", rules(""), rules("bob"))
	}
	path := "/api/v1/approvals/rules/" + mine[0].ID
	for _, c := range []struct {
		who  string
		want int
	}{{"bob", http.StatusNotFound}, {"carol", http.StatusNoContent}, {"carol", http.StatusNotFound}} {
		if r := b.as(c.who, http.MethodDelete, path, ""); r.status != c.want {
			t.Errorf("%s takes it back: %d, not %d: %s", c.who, r.status, c.want, r.body)
		}
	}
	if r := b.as("carol", http.MethodPost, "/api/v1/tools/do:risky/call", `{"no_wait": true}`); r.status != http.StatusForbidden {
		t.Errorf("without the rule the call does not need approval: %d", r.status)
	}
}
