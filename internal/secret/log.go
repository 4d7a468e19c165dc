package secret

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler redacts what is logged on its way to the handler below: messages, and
// the text of every attribute. Numbers, times and truth values stay what they
// are.
func (m *Redactor) Handler(below slog.Handler) slog.Handler { return logHandler{m, below} }

type logHandler struct {
	redactor *Redactor
	below    slog.Handler
}

// Enabled asks the handler below.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.below.Enabled(ctx, level)
}

// Handle redacts a record.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.redactor.matcher() == nil {
		return h.below.Handle(ctx, r)
	}
	redacted := slog.NewRecord(r.Time, r.Level, h.redactor.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		redacted.AddAttrs(h.attr(a))
		return true
	})
	return h.below.Handle(ctx, redacted)
}

// WithAttrs keeps attributes for later records. They are redacted with what is
// known now.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	redacted := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		redacted[i] = h.attr(a)
	}
	return logHandler{h.redactor, h.below.WithAttrs(redacted)}
}

// WithGroup opens a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.redactor, h.below.WithGroup(name)}
}

func (h logHandler) attr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		value = slog.StringValue(h.redactor.Text(value.String()))
	case slog.KindGroup:
		group := value.Group()
		redacted := make([]slog.Attr, len(group))
		for i, within := range group {
			redacted[i] = h.attr(within)
		}
		value = slog.GroupValue(redacted...)
	case slog.KindAny:
		// A text stands for the thing where its text has a secret.
		if said := fmt.Sprintf("%+v", value.Any()); h.redactor.Text(said) != said {
			value = slog.StringValue(h.redactor.Text(said))
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}
