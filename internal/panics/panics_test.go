package panics_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/panics"
)

func TestCatchReturnsAPanicAsAnErrorWithItsStack(t *testing.T) {
	err := panics.Catch(func() { panic("boom") })
	var caught *panics.Error
	if !errors.As(err, &caught) || caught.Value != "boom" || err.Error() != "panic: boom" || !strings.Contains(caught.Stack, "panics_test.go") {
		t.Errorf("got %#v", err)
	}
	if err := panics.Catch(func() {}); err != nil {
		t.Errorf("no panic gave %v", err)
	}
}

func TestLogWritesAPanicToTheLog(t *testing.T) {
	var text bytes.Buffer
	panics.Log(slog.New(slog.NewTextHandler(&text, nil)), "the test", func() { panic("boom") })
	if !strings.Contains(text.String(), "panic in the test") || !strings.Contains(text.String(), "boom") {
		t.Errorf("the log says %s", text.String())
	}
}
