package secret

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/toolroom/toolroom/internal/panics"
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
		// A text stands for the thing where one of its texts has a secret.
		for _, said := range logged(value.Any()) {
			if redacted := h.redactor.Text(said); redacted != said {
				value = slog.StringValue(redacted)
				break
			}
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}

// logged returns the texts that handlers make of a value.
func logged(v any) []string {
	texts := []string{fmt.Sprintf("%+v", v)}
	if _, ok := v.(error); ok {
		return texts
	}
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return append(texts, string(reflect.ValueOf(v).Bytes()))
	}
	// A value that cannot be encoded is a mistake that the handler below reports.
	_ = panics.Catch(func() {
		if text, ok := v.(encoding.TextMarshaler); ok {
			if said, err := text.MarshalText(); err == nil {
				texts = append(texts, string(said))
			}
		}
		if said, err := json.Marshal(v); err == nil {
			texts = append(texts, string(said))
		}
	})
	return texts
}
