package app

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
)

// caseFromCall implements [release.Options.CaseOf].
func (a *App) caseFromCall(ctx context.Context, call string) (*release.Case, []string, error) {
	got, err := a.Receipt(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	tool, _, err := a.releases.Find(ctx, got.Tool)
	if err != nil {
		return nil, nil, err
	}
	if len(got.Arguments) == 0 || got.Arguments[0] != '{' || got.Redacted {
		return nil, nil, toolroom.Errorf(toolroom.CodeConflict, "the receipt of %s does not have the arguments: they were redacted, or too large", call).
			WithHint("write the case by hand").WithCLIHint("toolroom tool case add %s NAME KEY=VALUE", tool)
	}
	c := &release.Case{Tool: tool, Name: got.ID, Arguments: got.Arguments, From: got.ID}
	setExpectation(c, got)
	calls, err := a.Receipts(ctx, toolroom.ReceiptQuery{Parent: got.ID, Limit: maxReadCalls})
	if err != nil {
		return nil, nil, err
	}
	var unrecorded []string
	c.Fakes, unrecorded = fakesFromCalls(calls)
	return c, unrecorded, nil
}

// fakesFromCalls returns a fake of each call of a program, in the order in which the calls
// were made; calls has the newest first. unrecorded are the calls whose receipts lack a
// value or arguments. If there are any, or if there may be more calls than maxReadCalls,
// fakesFromCalls returns no fakes.
func fakesFromCalls(calls []*toolroom.Receipt) (fakes []release.Fake, unrecorded []string) {
	for _, one := range slices.Backward(calls) {
		fakes = append(fakes, release.Fake{Tool: one.Tool, Arguments: one.Arguments, Value: one.Value, Error: one.Error})
		if one.Redacted || one.Error == nil && len(one.Value) == 0 || len(one.Arguments) > 0 && one.Arguments[0] != '{' {
			unrecorded = append(unrecorded, one.ID)
		}
	}
	if len(unrecorded) > 0 || len(calls) == maxReadCalls {
		fakes = nil
	}
	return fakes, unrecorded
}

// setExpectation makes a case expect the outcome of a recorded call: its value if the
// receipt has all of it, else the hash of the value, or the code of its error.
func setExpectation(c *release.Case, got *toolroom.Receipt) {
	if got.Error != nil {
		c.Error = got.Error.Code
		return
	}
	text, _ := json.Marshal(got.Preview) // a string can always be encoded
	for _, value := range []json.RawMessage{json.RawMessage(got.Preview), text} {
		if json.Valid(value) && receipt.Hash(value) == got.ResultHash {
			c.Expect = value
			return
		}
	}
	c.ExpectHash = got.ResultHash
}
