package secret

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler masks what is logged on its way to the handler below: messages, and
// the text of every attribute. Numbers, times and truth values stay what they
// are.
func (m *Masker) Handler(below slog.Handler) slog.Handler { return logHandler{m, below} }

type logHandler struct {
	masker *Masker
	below  slog.Handler
}

// Enabled asks the handler below.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.below.Enabled(ctx, level)
}

// Handle masks a record.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.masker.matcher() == nil {
		return h.below.Handle(ctx, r)
	}
	masked := slog.NewRecord(r.Time, r.Level, h.masker.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.below.Handle(ctx, masked)
}

// WithAttrs keeps attributes for later records. They are masked with what is
// known now.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return logHandler{h.masker, h.below.WithAttrs(masked)}
}

// WithGroup opens a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.masker, h.below.WithGroup(name)}
}

func (h logHandler) attr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindString:
		value = slog.StringValue(h.masker.Text(value.String()))
	case slog.KindGroup:
		group := value.Group()
		masked := make([]slog.Attr, len(group))
		for i, within := range group {
			masked[i] = h.attr(within)
		}
		value = slog.GroupValue(masked...)
	case slog.KindAny:
		// A text stands for the thing where its text has a secret.
		if said := fmt.Sprintf("%+v", value.Any()); h.masker.Text(said) != said {
			value = slog.StringValue(h.masker.Text(said))
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}
