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

// Handler returns a handler that redacts messages and the texts of attributes, and passes
// records to the handler below. Numbers, times and booleans are not changed.
func (m *Redactor) Handler(below slog.Handler) slog.Handler { return logHandler{m, below} }

type logHandler struct {
	redactor *Redactor
	below    slog.Handler
}

// Enabled reports what the handler below reports.
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

// WithAttrs adds attributes to later records. It redacts the values that are known now.
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
		// If a text that a handler may make of the value has a secret, the redacted text
		// replaces the value.
		for _, said := range logged(value.Any()) {
			if redacted := h.redactor.Text(said); redacted != said {
				value = slog.StringValue(redacted)
				break
			}
		}
	}
	return slog.Attr{Key: a.Key, Value: value}
}

// logged returns the texts that handlers may make of a value.
func logged(v any) []string {
	texts := []string{fmt.Sprintf("%+v", v)}
	if _, ok := v.(error); ok {
		return texts
	}
	if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return append(texts, string(reflect.ValueOf(v).Bytes()))
	}
	// If a value cannot be encoded, the handler below reports that.
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
