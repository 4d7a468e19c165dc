package app_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

func TestAnOperatorEndsWhatASessionHasInReachAndThatIsRecorded(t *testing.T) {
	t.Parallel()
	s := newShifty(t)
	s.says(map[string]string{"read": "Reads.", "send": "Sends."})
	s.write("toolroom.yaml", `policy: {taint: deny}
sources: {pets: {openapi: {spec: spec.json, base_url: "`+s.url+`"}, egress: {allow: [loopback]}, effects: {send: [send], read: [none]}, tool_labels: {read: [private, untrusted]}}}`)
	r, err := app.Open(t.Context(), app.Options{Home: s.home, ConfigFile: filepath.Join(s.home, "toolroom.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	ann := toolroom.Identity{Subject: "ann"}
	call := func(tool, session string) toolroom.Code {
		return toolroom.CodeOf(r.Run(t.Context(), toolroom.Call{Tool: tool, Session: session, Identity: ann, Arguments: json.RawMessage("{}")}).Err())
	}
	for _, session := range []string{"one", "two"} {
		if code := call("pets:read", session); code != "" {
			t.Fatal(code)
		}
		if code := call("pets:send", session); code != toolroom.CodeDenied {
			t.Fatalf("it may send: %q", code)
		}
	}
	labels, err := r.ForgetTaint(t.Context(), "ann", "one", "olga", "began anew")
	if err != nil || len(labels) != 2 {
		t.Fatal(labels, err)
	}
	if code := call("pets:send", "one"); code != "" {
		t.Errorf("the session that was ended may not send: %q", code)
	}
	if code := call("pets:send", "two"); code != toolroom.CodeDenied {
		t.Errorf("another session may send: %q", code)
	}
	if _, err := r.ForgetTaint(t.Context(), "ann", "three", "olga", "x"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("a session that has read nothing: %v", err)
	}
	records, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: "toolroom:policy.forget"})
	if err != nil || len(records) != 1 || !strings.Contains(string(records[0].Arguments), "olga") || len(records[0].Reach) != 2 {
		t.Errorf("it is recorded as %+v, %v", records, err)
	}
	if _, err := r.VerifyReceipts(t.Context()); err != nil {
		t.Error(err)
	}
}
