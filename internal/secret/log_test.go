package secret_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestNoAttributeOfALogLineShowsASecret(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery"
	var out bytes.Buffer
	log := slog.New(redactor(map[string]string{"s/v": value}).Handler(slog.NewJSONHandler(&out, nil)))
	log = log.With("with", value).WithGroup("group")
	log.Error("text "+value, "text", value, "error", errors.New(value), "n", 1,
		slog.Group("in", "text", value), "list", []string{value}, "struct", struct{ Token string }{value})
	if strings.Contains(out.String(), "horse") || strings.Count(out.String(), "[secret s/v]") != 7 || !strings.Contains(out.String(), `"n":1`) {
		t.Errorf("logged %s", &out)
	}
}
