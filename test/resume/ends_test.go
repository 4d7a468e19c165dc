package resume

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

// startWaiting starts a program that waits for a person, and returns its call.
func (f *fixture) startWaiting(engine, language, code string) (call, question string) {
	f.t.Helper()
	var accepted struct{ ID string }
	f.request(http.MethodPost, "/api/v1/execute?async=true", map[string]any{"language": language, "engine": engine, "code": code}, &accepted)
	question = f.pending()
	f.until("the state waiting", func() bool { return f.call(accepted.ID).State == "waiting" })
	return accepted.ID, question
}

func TestAnApprovalThatExpiredWithoutAServerIsAnErrorInTheProgram(t *testing.T) {
	for _, p := range programs {
		t.Run(p.engine, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.requireEngine(p.engine)
			f.configure("approvals: {ttl: 3s}\n")
			f.start()
			call, _ := f.startWaiting(p.engine, p.language, p.code)
			f.kill()
			f.start()
			var last record
			f.until("the end of the run", func() bool { last = f.call(call); return last.State == "done" })
			if last.Result.Error != nil {
				t.Fatalf("%s: %v", last.Result.Error.Message, last.Result.Error.Details)
			}
			var value []string
			if err := last.Result.Decode(&value); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"approval_expired", "ship tea #1"}, value); diff != "" {
				t.Error(diff)
			}
			if counts := f.shop.counts(); counts["pay tea"] != 0 || counts["ship tea"] != 1 {
				t.Errorf("the tools did %v", counts)
			}
		})
	}
}

func TestARunIsListedAndCancelledInTheNextServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	call, question := f.startWaiting("js", programs[0].language, programs[0].code)
	f.kill()
	f.start()
	var list struct {
		Runs []struct {
			ID, Tool, State string
			Approvals       []string
		}
	}
	f.request(http.MethodGet, "/api/v1/runs", nil, &list)
	if len(list.Runs) != 1 || list.Runs[0].ID != call || list.Runs[0].State != "waiting" || !cmp.Equal(list.Runs[0].Approvals, []string{question}) {
		t.Errorf("the runs are %+v", list.Runs)
	}
	f.until("the run is cancelled", func() bool { // the dead server's lease lasts a few seconds
		var answer map[string]any
		f.request(http.MethodPost, "/api/v1/calls/"+call+"/cancel", nil, &answer)
		return f.call(call).State == "done"
	})
	if r := f.call(call).Result; r.Status != toolroom.StatusCancelled {
		t.Errorf("it ended with %s: %v", r.Status, r.Error)
	}
	var asked toolroom.Approval
	f.request(http.MethodGet, "/api/v1/approvals/"+question, nil, &asked)
	if asked.State == toolroom.ApprovalPending {
		t.Error("its question is still open")
	}
	if counts := f.shop.counts(); counts["pay tea"] != 0 || counts["ship tea"] != 0 {
		t.Errorf("the tools did %v", counts)
	}
}
