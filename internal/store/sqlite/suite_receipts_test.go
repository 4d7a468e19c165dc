package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/receipt"
)

var receiptTests = []test{
	{"a receipt comes back whole, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		r := fullReceipt()
		must(t, s.AppendReceipts(t.Context(), []*receipt.Draft{r}))
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Receipt(t.Context(), r.ID)
			must(t, err)
			if diff := cmp.Diff(&r.Receipt, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}},
	{"appending fills in seq and hash, in order, across groups and handles", func(t *testing.T, d database) {
		group := receipts("a", "b")
		must(t, d.open(t).AppendReceipts(t.Context(), group))
		next := receipts("c")
		must(t, d.open(t).AppendReceipts(t.Context(), next))
		var walk receipt.Walk
		s := d.open(t)
		records, err := s.ReceiptRecords(t.Context(), 0, 10)
		must(t, err)
		for i, r := range append(group, next...) {
			if _, err := walk.Next(records[i]); err != nil {
				t.Fatal(err)
			}
			if r.Seq != int64(i+1) || r.Hash != walk.At.Hash {
				t.Errorf("receipt %s has seq %d, hash %q; want %d, %q", r.ID, r.Seq, r.Hash, i+1, walk.At.Hash)
			}
		}
		if first, end, err := s.ReceiptEnds(t.Context()); err != nil || first.Seq != 0 || end != walk.At {
			t.Errorf("the chain runs from %v to %v, %v", first, end, err)
		}
	}},
	{"an empty group is no error", func(t *testing.T, d database) {
		must(t, d.open(t).AppendReceipts(t.Context(), nil))
	}},
	{"a receipt that is not there is not found", func(t *testing.T, d database) {
		_, err := d.open(t).Receipt(t.Context(), "none")
		wantCode(t, "Receipt", err, toolroom.CodeNotFound)
	}},
	{"a call id that occurs twice returns the newest, and both are kept", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.AppendReceipts(t.Context(), receipts("a", "b", "a")))
		got, err := s.Receipt(t.Context(), "a")
		must(t, err)
		if got.Seq != 3 {
			t.Errorf("Receipt returns seq %d, want 3", got.Seq)
		}
		wantReceipts(t, s, toolroom.ReceiptQuery{}, 3, 2, 1)
	}},
	{"queries select", testReceiptQueries},
	{"queries page", testReceiptPages},
	{"a follower that reads on misses nothing and repeats nothing", testReceiptFollower},
	{"groups appended at once by several handles make one whole chain", func(t *testing.T, d database) {
		wins := race(t, d, func(s *Store, racer int) bool {
			for n := range 5 {
				group := receipts(fmt.Sprintf("%d/%d/a", racer, n), fmt.Sprintf("%d/%d/b", racer, n))
				if err := s.AppendReceipts(t.Context(), group); err != nil {
					t.Error(err)
					return false
				}
				if group[1].Seq != group[0].Seq+1 {
					t.Errorf("a group has seq %d and %d: it was torn apart", group[0].Seq, group[1].Seq)
				}
			}
			return true
		})
		n, err := d.open(t).VerifyReceipts(t.Context(), nil)
		if want := int64(wins * 10); err != nil || n != want {
			t.Errorf("VerifyReceipts = %d, %v; want %d", n, err, want)
		}
	}},
	{"an empty chain is whole", func(t *testing.T, d database) {
		if n, err := d.open(t).VerifyReceipts(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("VerifyReceipts = %d, %v", n, err)
		}
	}},
	{"tampering is found", testReceiptTampering},
	{"a redaction takes the details out and the chain stays whole", testReceiptRedaction},
	{"pruning takes the oldest out and the chain stays whole", testReceiptPruning},
}

func testReceiptQueries(t *testing.T, d database) {
	s := d.open(t)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	group := []*receipt.Draft{
		{Receipt: toolroom.Receipt{ID: "1", Tool: "file:read", Surface: "cli", Status: toolroom.StatusOK, Started: at(1), Release: &toolroom.Release{Version: 2}, Environment: "test", Usage: toolroom.Usage{Queue: 5, Run: 7}}},
		{Receipt: toolroom.Receipt{ID: "2", Tool: "file:read", Surface: "mcp", Status: toolroom.StatusError, Started: at(2), Identity: toolroom.Identity{Subject: "ann", Agent: "x"}}},
		{Receipt: toolroom.Receipt{ID: "3", Tool: "file:write", Surface: "mcp", Status: toolroom.StatusOK, Started: at(4), Identity: toolroom.Identity{Subject: "ann"}, Parent: "2"}},
		{Receipt: toolroom.Receipt{ID: "4", Tool: "file:write", Surface: "http", Status: toolroom.StatusDenied, Started: at(3), Identity: toolroom.Identity{Subject: "bob"}, Parent: "2", Error: &toolroom.Error{Code: toolroom.CodeDenied}, Labels: []string{"private", "untrusted"}}},
	}
	must(t, s.AppendReceipts(t.Context(), group))
	for name, tt := range map[string]struct {
		q    toolroom.ReceiptQuery
		want []int64
	}{
		"all, newest first":        {toolroom.ReceiptQuery{}, []int64{4, 3, 2, 1}},
		"tool":                     {toolroom.ReceiptQuery{Tool: "file:read"}, []int64{2, 1}},
		"version":                  {toolroom.ReceiptQuery{Tool: "file:read", Version: 2}, []int64{1}},
		"environment":              {toolroom.ReceiptQuery{Environment: "test"}, []int64{1}},
		"subject":                  {toolroom.ReceiptQuery{Subject: "ann"}, []int64{3, 2}},
		"the local operator":       {toolroom.ReceiptQuery{Subject: "local"}, []int64{1}},
		"surface":                  {toolroom.ReceiptQuery{Surface: "mcp"}, []int64{3, 2}},
		"status":                   {toolroom.ReceiptQuery{Status: toolroom.StatusOK}, []int64{3, 1}},
		"parent":                   {toolroom.ReceiptQuery{Parent: "2"}, []int64{4, 3}},
		"since, its own included":  {toolroom.ReceiptQuery{Since: at(3)}, []int64{4, 3}},
		"until, its own excluded":  {toolroom.ReceiptQuery{Until: at(3)}, []int64{2, 1}},
		"between two times":        {toolroom.ReceiptQuery{Since: at(2), Until: at(4)}, []int64{4, 2}},
		"error code":               {toolroom.ReceiptQuery{Code: toolroom.CodeDenied}, []int64{4}},
		"label":                    {toolroom.ReceiptQuery{Label: "untrusted"}, []int64{4}},
		"part of a label":          {toolroom.ReceiptQuery{Label: "trusted"}, []int64{}},
		"after, oldest first":      {toolroom.ReceiptQuery{AfterSeq: 2}, []int64{3, 4}},
		"after nothing":            {toolroom.ReceiptQuery{AfterSeq: toolroom.ReceiptsFromStart}, []int64{1, 2, 3, 4}},
		"before, newest first":     {toolroom.ReceiptQuery{BeforeSeq: 3}, []int64{2, 1}},
		"between, oldest first":    {toolroom.ReceiptQuery{AfterSeq: 1, BeforeSeq: 4}, []int64{2, 3}},
		"limit":                    {toolroom.ReceiptQuery{Limit: 3}, []int64{4, 3, 2}},
		"several at once":          {toolroom.ReceiptQuery{Subject: "ann", Surface: "mcp", Status: toolroom.StatusOK, Tool: "file:write", Parent: "2", Since: at(4)}, []int64{3}},
		"nothing":                  {toolroom.ReceiptQuery{Tool: "file:rea"}, []int64{}},
		"text that looks like SQL": {toolroom.ReceiptQuery{Tool: "' OR 1=1 --"}, []int64{}},
	} {
		t.Run(name, func(t *testing.T) { wantReceipts(t, s, tt.q, tt.want...) })
	}
	wide := toolroom.Identity{Subject: "eve", Groups: []string{"a", "b"}}
	makers := []toolroom.Identity{wide, {Subject: "eve"}, {Subject: "eve", Agent: "fast"}, {Subject: "eve", Groups: []string{"a"}}, {Subject: "eve", Scopes: []string{}}, {Subject: "eve", Scopes: []string{"r"}}, {Subject: "eve", Set: "small"}, {Subject: "eve", Environment: "test"}}
	for i, who := range makers {
		must(t, s.AppendReceipts(t.Context(), []*receipt.Draft{{Receipt: toolroom.Receipt{ID: fmt.Sprint("eve", i), Identity: who, Started: start}}}))
	}
	for _, who := range makers {
		var want []int64 // newest first
		for i, maker := range makers {
			if identity.Reaches(who, maker) {
				want = append([]int64{int64(len(group) + i + 1)}, want...)
			}
		}
		wantReceipts(t, s, toolroom.ReceiptQuery{ReachedBy: &who}, want...)
	}
	var got []receipt.Sample
	must(t, s.ReceiptSamples(t.Context(), toolroom.ReceiptQuery{Tool: "file:read"}, func(one receipt.Sample) bool {
		got = append(got, one)
		return true
	}))
	want := []receipt.Sample{
		{Seq: 1, Call: "1", Tool: "file:read", Subject: "local", Surface: "cli", Environment: "test", Version: 2, Status: toolroom.StatusOK, Started: at(1), Queue: 5, Run: 7},
		{Seq: 2, Call: "2", Tool: "file:read", Subject: "ann", Surface: "mcp", Status: toolroom.StatusError, Started: at(2)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func testReceiptPages(t *testing.T, d database) {
	s := d.open(t)
	var group []*receipt.Draft
	for n := range receipt.MaxLimit + 100 {
		group = append(group, &receipt.Draft{Receipt: toolroom.Receipt{ID: fmt.Sprint(n), Started: start}})
	}
	must(t, s.AppendReceipts(t.Context(), group))
	for limit, want := range map[int]int{0: receipt.DefaultLimit, 7: 7, receipt.MaxLimit: receipt.MaxLimit, 1 << 30: receipt.MaxLimit} {
		page, err := s.Receipts(t.Context(), toolroom.ReceiptQuery{Limit: limit})
		if err != nil || len(page) != want {
			t.Errorf("limit %d: %d receipts, %v; want %d", limit, len(page), err, want)
		}
	}
	next := int64(len(group))
	for q := (toolroom.ReceiptQuery{Limit: 400}); ; q.BeforeSeq = next + 1 {
		page, err := s.Receipts(t.Context(), q)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.Seq != next {
				t.Fatalf("seq %d came where %d was next", r.Seq, next)
			}
			next--
		}
	}
	if next != 0 {
		t.Errorf("paging ended with %d receipts unseen", next)
	}
}

func testReceiptFollower(t *testing.T, d database) {
	writer, reader := d.open(t), d.open(t)
	const groups, each = 40, 3
	done := make(chan error, 1)
	go func() {
		for range groups {
			if err := writer.AppendReceipts(t.Context(), receipts("a", "b", "c")); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	last := int64(0)
	for ended := false; ; {
		q := toolroom.ReceiptQuery{AfterSeq: last}
		if last == 0 {
			q.AfterSeq = toolroom.ReceiptsFromStart
		}
		page, err := reader.Receipts(t.Context(), q)
		must(t, err)
		for _, r := range page {
			if r.Seq != last+1 {
				t.Fatalf("seq %d came after %d", r.Seq, last)
			}
			last = r.Seq
		}
		if ended && len(page) == 0 {
			break
		}
		select {
		case err := <-done:
			must(t, err)
			ended = true
		default:
		}
	}
	if last != groups*each {
		t.Errorf("followed up to %d, want %d", last, groups*each)
	}
}

func testReceiptTampering(t *testing.T, d database) {
	for name, tt := range map[string]struct {
		statement string
		fit       int64
		want      string
	}{
		"a changed receipt":           {"UPDATE receipts SET body = replace(body, 'file:read', 'file:read2') WHERE seq = 3", 2, "receipt 3"},
		"a changed hash":              {"UPDATE receipts SET hash = 'abc' WHERE seq = 3", 2, "receipt 3"},
		"a receipt hidden from views": {"UPDATE receipts SET subject = 'nobody' WHERE seq = 3", 2, "receipt 3"},
		"a removed receipt":           {"DELETE FROM receipts WHERE seq = 3", 2, "receipt 3 is missing"},
		"the first receipt removed":   {"DELETE FROM receipts WHERE seq = 1", 0, "receipt 1 is missing"},
		"the last receipts removed":   {"DELETE FROM receipts WHERE seq > 3", 3, "receipt 4"},
		"all receipts removed":        {"DELETE FROM receipts", 0, "receipt 1"},
		"changed details":             {"UPDATE receipts SET detail = replace(detail, 'secret', 'public') WHERE seq = 3", 2, "receipt 3"},
		"details without a redaction": {"UPDATE receipts SET detail = '' WHERE seq = 3", 5, "no redaction is recorded"},
		"another error code":          {"UPDATE receipts SET code = 'denied' WHERE seq = 3", 2, "receipt 3"},
		"another label":               {"UPDATE receipts SET labels = '' WHERE seq = 3", 2, "receipt 3"},
		"a checkpoint of one's own":   {"UPDATE receipt_checkpoint SET seq = 3, hash = (SELECT hash FROM receipts WHERE seq = 3); DELETE FROM receipts WHERE seq <= 3", 0, "no key to verify"},
		"text that is no JSON":        {"UPDATE receipts SET body = '{' WHERE seq = 3", 2, "receipt 3"},
	} {
		t.Run(name, func(t *testing.T) {
			// Statements are undone by hand so that one database serves all.
			s := d.open(t)
			d.execute(t, "DELETE FROM receipts")
			d.execute(t, "UPDATE receipt_chain SET seq = 0, hash = ''")
			d.execute(t, "UPDATE receipt_checkpoint SET seq = 0, hash = ''")
			must(t, s.AppendReceipts(t.Context(), receipts("a", "b", "c", "d", "e")))
			if n, err := s.VerifyReceipts(t.Context(), nil); n != 5 || err != nil {
				t.Fatalf("before: VerifyReceipts = %d, %v", n, err)
			}
			d.execute(t, tt.statement)
			n, err := s.VerifyReceipts(t.Context(), nil)
			if n != tt.fit || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("VerifyReceipts = %d, %v; want %d and an error that says %q", n, err, tt.fit, tt.want)
			}
			must(t, s.AppendReceipts(t.Context(), receipts("later")))
			if n, err := s.VerifyReceipts(t.Context(), nil); n < tt.fit || err == nil {
				t.Errorf("after another append: VerifyReceipts = %d, %v; the gap must stay visible", n, err)
			}
		})
	}
}

func testReceiptRedaction(t *testing.T, d database) {
	s := d.open(t)
	r := fullReceipt()
	must(t, s.AppendReceipts(t.Context(), append(receipts("a"), r)))
	must(t, s.AppendReceipts(t.Context(), receipts("c")))
	notice := &toolroom.Receipt{ID: "redact_call_2", Tool: "toolroom:redact", Started: start}
	must(t, s.RedactReceipts(t.Context(), r.ID, notice))
	if diff := cmp.Diff([]int64{2}, notice.Redacts); diff != "" || notice.Seq != 4 {
		t.Errorf("the notice is %d of %v", notice.Seq, notice.Redacts)
	}
	got, err := d.open(t).Receipt(t.Context(), r.ID)
	must(t, err)
	want := r.Receipt
	want.Redacted, want.Arguments, want.ArgumentsHash, want.Expected, want.Preview, want.ResultHash, want.Logs, want.Value = true, nil, "", nil, "", "", nil, nil
	want.Error = &toolroom.Error{Code: r.Error.Code, Phase: r.Error.Phase, Tool: r.Error.Tool, Retryable: r.Error.Retryable}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("redacted (-want +got):\n%s", diff)
	}
	if n, err := s.VerifyReceipts(t.Context(), nil); n != 4 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
	wantCode(t, "again", s.RedactReceipts(t.Context(), r.ID, &toolroom.Receipt{ID: "x"}), toolroom.CodeConflict)
	wantCode(t, "unknown", s.RedactReceipts(t.Context(), "none", &toolroom.Receipt{ID: "x"}), toolroom.CodeNotFound)
	if n, err := s.VerifyReceipts(t.Context(), nil); n != 4 || err != nil {
		t.Errorf("after refusals: VerifyReceipts = %d, %v", n, err)
	}
}

func testReceiptPruning(t *testing.T, d database) {
	s := d.open(t)
	var group []*receipt.Draft
	for n, minute := range []int{1, 3, 2, 5, 4} {
		group = append(group, &receipt.Draft{Receipt: toolroom.Receipt{ID: fmt.Sprint(n + 1), Started: start.Add(time.Duration(minute) * time.Minute)}})
	}
	must(t, s.AppendReceipts(t.Context(), group))
	prune := func(minute int, want int64) {
		t.Helper()
		n, err := s.PruneReceipts(t.Context(), start.Add(time.Duration(minute)*time.Minute), func(c *receipt.Checkpoint) error {
			c.Signature = []byte("signed")
			return nil
		})
		if n != want || err != nil {
			t.Errorf("before minute %d: %d pruned, %v; want %d", minute, n, err, want)
		}
	}
	prune(1, 0)
	prune(3, 1) // the third began before, and comes after one that did not
	wantReceipts(t, s, toolroom.ReceiptQuery{}, 5, 4, 3, 2)
	prune(3, 0)
	prune(5, 2)
	wantReceipts(t, s, toolroom.ReceiptQuery{}, 5, 4)
	first, end, err := s.ReceiptEnds(t.Context())
	must(t, err)
	if first.Seq != 3 || first.Hash != group[2].Hash || string(first.Signature) != "signed" || end.Seq != 5 {
		t.Errorf("the chain runs from %+v to %+v", first, end)
	}
	if n, err := s.VerifyReceipts(t.Context(), func(receipt.Checkpoint) error { return nil }); n != 2 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
	if _, err := s.VerifyReceipts(t.Context(), func(receipt.Checkpoint) error { return fmt.Errorf("not signed") }); err == nil {
		t.Error("an untrusted checkpoint was accepted")
	}
	prune(60, 2)
	must(t, s.AppendReceipts(t.Context(), receipts("later")))
	wantReceipts(t, s, toolroom.ReceiptQuery{}, 6)
	if n, err := s.VerifyReceipts(t.Context(), func(receipt.Checkpoint) error { return nil }); n != 1 || err != nil {
		t.Errorf("after all were pruned: VerifyReceipts = %d, %v", n, err)
	}
	if _, err := s.PruneReceipts(t.Context(), start.Add(time.Hour), func(*receipt.Checkpoint) error { return fmt.Errorf("no key") }); err == nil {
		t.Error("receipts were pruned without a signature")
	}
	wantReceipts(t, s, toolroom.ReceiptQuery{}, 6)
}

func wantReceipts(t *testing.T, s *Store, q toolroom.ReceiptQuery, want ...int64) {
	t.Helper()
	page, err := s.Receipts(t.Context(), q)
	must(t, err)
	got := []int64{}
	for _, r := range page {
		got = append(got, r.Seq)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seqs (-want +got):\n%s", diff)
	}
}

func receipts(ids ...string) []*receipt.Draft {
	group := make([]*receipt.Draft, len(ids))
	for i, id := range ids {
		group[i] = &receipt.Draft{Receipt: toolroom.Receipt{ID: id, Tool: "file:read", Surface: "cli", Status: toolroom.StatusOK, Preview: "secret", Labels: []string{"untrusted"}, Started: start}}
	}
	return group
}

func fullReceipt() *receipt.Draft {
	return &receipt.Draft{Receipt: toolroom.Receipt{
		ID: "call_2", Parent: "call_1", Tool: "file:read@3", Source: toolroom.SourceMCP, Surface: "mcp",
		Identity:  toolroom.Identity{Subject: "ann", Agent: "coder", Provider: "p", Skill: "s", Groups: []string{"dev", "ops"}},
		Session:   "session",
		Labels:    []string{"private", "untrusted"},
		Arguments: json.RawMessage(`{"big":12345678901234567890,"text":"é'\"\u0000"}`), ArgumentsHash: "aa", Key: "key",
		Status: toolroom.StatusError, Effects: toolroom.EffectsUnknown,
		Error:    &toolroom.Error{Code: toolroom.CodeTimeout, Phase: toolroom.PhaseExecute, Tool: "file:read", Message: "too slow", Retryable: true, Hint: "wait", Details: map[string]any{"a": "b"}},
		Expected: []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "read", Target: "/home/ann/x"}},
		Logs:     []toolroom.LogLine{{Time: start, Level: "info", Message: "half", Data: json.RawMessage(`{"n":1}`)}}, LogsHidden: 3,
		Value:   json.RawMessage(`[1]`),
		Preview: "begins with 😀", ResultHash: "bb", Artifacts: []string{"art_1"},
		Rule: "deny[0]", Approval: "apr_1",
		Started: start,
		Usage:   toolroom.Usage{Queue: 1, Wait: 2, Run: 3, CPU: 4, PeakMemory: 5, BytesIn: 6, BytesOut: 7, Calls: 8, Attempts: 9, Cached: true},
	}}
}
