package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/store"
)

var receiptTests = []test{
	{"a receipt comes back whole, also after reopening", func(t *testing.T, b Backend) {
		s := b.Open(t)
		r := fullReceipt()
		must(t, s.AppendReceipts(t.Context(), []*receipt.Receipt{r}))
		for name, s := range map[string]store.Store{"same handle": s, "reopened": b.Open(t)} {
			got, err := s.Receipt(t.Context(), r.ID)
			must(t, err)
			if diff := cmp.Diff(r, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}},
	{"appending fills in seq and hash, in order, across groups and handles", func(t *testing.T, b Backend) {
		group := receipts("a", "b")
		must(t, b.Open(t).AppendReceipts(t.Context(), group))
		next := receipts("c")
		must(t, b.Open(t).AppendReceipts(t.Context(), next))
		var end receipt.Chain
		for i, r := range append(group, next...) {
			linked, _, err := end.Next(r)
			must(t, err)
			if r.Seq != int64(i+1) || r.Hash != linked.Hash {
				t.Errorf("receipt %s has seq %d, hash %q; want %d, %q", r.ID, r.Seq, r.Hash, i+1, linked.Hash)
			}
			end = linked
		}
	}},
	{"an empty group is no error", func(t *testing.T, b Backend) {
		must(t, b.Open(t).AppendReceipts(t.Context(), nil))
	}},
	{"a receipt that is not there is not found", func(t *testing.T, b Backend) {
		_, err := b.Open(t).Receipt(t.Context(), "none")
		wantCode(t, "Receipt", err, toolroom.CodeNotFound)
	}},
	{"a call id that occurs twice gives the newest, and both are kept", func(t *testing.T, b Backend) {
		s := b.Open(t)
		must(t, s.AppendReceipts(t.Context(), receipts("a", "b", "a")))
		got, err := s.Receipt(t.Context(), "a")
		must(t, err)
		if got.Seq != 3 {
			t.Errorf("Receipt gives seq %d, want 3", got.Seq)
		}
		wantReceipts(t, s, receipt.Query{}, 3, 2, 1)
	}},
	{"queries select", testReceiptQueries},
	{"queries page", testReceiptPages},
	{"a follower that reads on misses nothing and repeats nothing", testReceiptFollower},
	{"groups appended at once by several handles make one whole chain", func(t *testing.T, b Backend) {
		wins := race(t, b, func(s store.Store, racer int) bool {
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
		n, err := b.Open(t).VerifyReceipts(t.Context())
		if want := int64(wins * 10); err != nil || n != want {
			t.Errorf("VerifyReceipts = %d, %v; want %d", n, err, want)
		}
	}},
	{"an empty chain is whole", func(t *testing.T, b Backend) {
		if n, err := b.Open(t).VerifyReceipts(t.Context()); n != 0 || err != nil {
			t.Errorf("VerifyReceipts = %d, %v", n, err)
		}
	}},
	{"tampering is found", testReceiptTampering},
}

func testReceiptQueries(t *testing.T, b Backend) {
	s := b.Open(t)
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	group := []*receipt.Receipt{
		{ID: "1", Tool: "file:read", Surface: "cli", Status: toolroom.StatusOK, Started: at(1)},
		{ID: "2", Tool: "file:read", Surface: "mcp", Status: toolroom.StatusError, Started: at(2), Identity: toolroom.Identity{Subject: "ann", Agent: "x"}},
		{ID: "3", Tool: "file:write", Surface: "mcp", Status: toolroom.StatusOK, Started: at(4), Identity: toolroom.Identity{Subject: "ann"}, Parent: "2"},
		{ID: "4", Tool: "file:write", Surface: "http", Status: toolroom.StatusDenied, Started: at(3), Identity: toolroom.Identity{Subject: "bob"}, Parent: "2"},
	}
	must(t, s.AppendReceipts(t.Context(), group))
	for name, tt := range map[string]struct {
		q    receipt.Query
		want []int64
	}{
		"all, newest first":        {receipt.Query{}, []int64{4, 3, 2, 1}},
		"tool":                     {receipt.Query{Tool: "file:read"}, []int64{2, 1}},
		"subject":                  {receipt.Query{Subject: "ann"}, []int64{3, 2}},
		"the local operator":       {receipt.Query{Subject: "local"}, []int64{1}},
		"surface":                  {receipt.Query{Surface: "mcp"}, []int64{3, 2}},
		"status":                   {receipt.Query{Status: toolroom.StatusOK}, []int64{3, 1}},
		"parent":                   {receipt.Query{Parent: "2"}, []int64{4, 3}},
		"since, its own included":  {receipt.Query{Since: at(3)}, []int64{4, 3}},
		"after, oldest first":      {receipt.Query{AfterSeq: 2}, []int64{3, 4}},
		"after nothing":            {receipt.Query{AfterSeq: receipt.FromStart}, []int64{1, 2, 3, 4}},
		"before, newest first":     {receipt.Query{BeforeSeq: 3}, []int64{2, 1}},
		"between, oldest first":    {receipt.Query{AfterSeq: 1, BeforeSeq: 4}, []int64{2, 3}},
		"limit":                    {receipt.Query{Limit: 3}, []int64{4, 3, 2}},
		"several at once":          {receipt.Query{Subject: "ann", Surface: "mcp", Status: toolroom.StatusOK, Tool: "file:write", Parent: "2", Since: at(4)}, []int64{3}},
		"nothing":                  {receipt.Query{Tool: "file:rea"}, []int64{}},
		"text that looks like SQL": {receipt.Query{Tool: "' OR 1=1 --"}, []int64{}},
	} {
		t.Run(name, func(t *testing.T) { wantReceipts(t, s, tt.q, tt.want...) })
	}
}

func testReceiptPages(t *testing.T, b Backend) {
	s := b.Open(t)
	var group []*receipt.Receipt
	for n := range receipt.MaxLimit + 100 {
		group = append(group, &receipt.Receipt{ID: fmt.Sprint(n), Started: start})
	}
	must(t, s.AppendReceipts(t.Context(), group))
	for limit, want := range map[int]int{0: receipt.DefaultLimit, 7: 7, receipt.MaxLimit: receipt.MaxLimit, 1 << 30: receipt.MaxLimit} {
		page, err := s.Receipts(t.Context(), receipt.Query{Limit: limit})
		if err != nil || len(page) != want {
			t.Errorf("limit %d: %d receipts, %v; want %d", limit, len(page), err, want)
		}
	}
	next := int64(len(group))
	for q := (receipt.Query{Limit: 400}); ; q.BeforeSeq = next + 1 {
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

func testReceiptFollower(t *testing.T, b Backend) {
	writer, reader := b.Open(t), b.Open(t)
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
		q := receipt.Query{AfterSeq: last}
		if last == 0 {
			q.AfterSeq = receipt.FromStart
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

func testReceiptTampering(t *testing.T, b Backend) {
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
		"text that is no JSON":        {"UPDATE receipts SET body = '{' WHERE seq = 3", 2, "receipt 3"},
	} {
		t.Run(name, func(t *testing.T) {
			// Statements are undone by hand so that one database serves all.
			s := b.Open(t)
			b.Exec(t, "DELETE FROM receipts")
			b.Exec(t, "UPDATE receipt_chain SET seq = 0, hash = ''")
			must(t, s.AppendReceipts(t.Context(), receipts("a", "b", "c", "d", "e")))
			if n, err := s.VerifyReceipts(t.Context()); n != 5 || err != nil {
				t.Fatalf("before: VerifyReceipts = %d, %v", n, err)
			}
			b.Exec(t, tt.statement)
			n, err := s.VerifyReceipts(t.Context())
			if n != tt.fit || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("VerifyReceipts = %d, %v; want %d and an error that says %q", n, err, tt.fit, tt.want)
			}
			must(t, s.AppendReceipts(t.Context(), receipts("later")))
			if n, err := s.VerifyReceipts(t.Context()); n != tt.fit || err == nil {
				t.Errorf("after another append: VerifyReceipts = %d, %v; the gap must stay visible", n, err)
			}
		})
	}
}

func wantReceipts(t *testing.T, s store.Store, q receipt.Query, want ...int64) {
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

func receipts(ids ...string) []*receipt.Receipt {
	group := make([]*receipt.Receipt, len(ids))
	for i, id := range ids {
		group[i] = &receipt.Receipt{ID: id, Tool: "file:read", Surface: "cli", Status: toolroom.StatusOK, Started: start}
	}
	return group
}

func fullReceipt() *receipt.Receipt {
	return &receipt.Receipt{
		ID: "call_2", Parent: "call_1", Tool: "file:read@3", Source: toolroom.SourceMCP, Surface: "mcp",
		Identity:  toolroom.Identity{Subject: "ann", Agent: "coder", Provider: "p", Skill: "s", Groups: []string{"dev", "ops"}},
		Session:   "session",
		Arguments: json.RawMessage(`{"big":12345678901234567890,"text":"é'\"\u0000"}`), ArgumentsHash: "aa", Key: "key",
		Status: toolroom.StatusError, Effects: toolroom.EffectsUnknown,
		Error:   &toolroom.Error{Code: toolroom.CodeTimeout, Phase: toolroom.PhaseExecute, Tool: "file:read", Message: "too slow", Retryable: true, Hint: "wait", Details: map[string]any{"a": "b"}},
		Preview: "begins with 😀", ResultHash: "bb", Artifacts: []string{"art_1"},
		Rule: "deny[0]", Approval: "apr_1",
		Started: start,
		Usage:   toolroom.Usage{Queue: 1, Wait: 2, Run: 3, CPU: 4, PeakMemory: 5, BytesIn: 6, BytesOut: 7, Calls: 8, Attempts: 9, Cached: true},
	}
}
