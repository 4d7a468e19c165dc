// Package pin remembers what the definitions of tools said when somebody took
// them. A server that changes what it says of a tool later, to lead a model
// astray, is found by comparing.
package pin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Pin is the definition of one tool as it was taken.
type Pin struct {
	Source string `json:"source"`
	Tool   string `json:"tool"`
	// Hash is the SHA-256, in hex, of what a model or a person sees of the tool,
	// in canonical JSON.
	Hash string `json:"hash"`
	// Definition is the tool, and Raw what its source sent.
	Definition json.RawMessage `json:"definition"`
	Raw        json.RawMessage `json:"raw,omitempty"`
	Pinned     time.Time       `json:"pinned"`
}

// Store holds pins. Its methods are safe for concurrent use, also by several
// processes on one store.
type Store interface {
	// Pins are those of a source, in the order of their tools.
	Pins(ctx context.Context, source string) ([]Pin, error)
	// AddPins stores pins of tools that have none yet, durably. One that is there
	// stays as it is.
	AddPins(ctx context.Context, pins []Pin) error
	// WidenPins stores pins in place of those that their tools have, durably.
	WidenPins(ctx context.Context, pins []Pin) error
	// ReplacePins makes pins all those of a source, durably.
	ReplacePins(ctx context.Context, source string, pins []Pin) error
}

// Of makes the pin of a tool as it is now.
func Of(source string, tool *toolroom.Tool, now time.Time) (Pin, error) {
	definition, err := json.Marshal(tool)
	if err != nil {
		return Pin{}, err
	}
	return Pin{Source: source, Tool: tool.ID.String(), Definition: definition, Raw: tool.Raw, Pinned: now}.Rehash()
}

// Rehash returns the pin with the hash that its definition has in this version, which
// may cover more than an earlier one.
func (p Pin) Rehash() (Pin, error) {
	seen, err := Seen(p.Definition, p.Raw)
	if err != nil {
		return Pin{}, err
	}
	sum := sha256.Sum256(seen)
	p.Hash = hex.EncodeToString(sum[:])
	return p, nil
}

// own are members of Toolroom's own definitions that no model or person sees. A source
// whose text is passed on has none: a client acts on _meta, too.
var own = []string{"timeout", "concurrency", "output_check"}

// Seen is what a hash covers, in canonical JSON: the definition of the source
// where there is one, for surfaces pass on what Toolroom does not model, else
// Toolroom's own.
func Seen(definition, raw json.RawMessage) ([]byte, error) {
	text, unseen := definition, own
	if len(raw) > 0 {
		text, unseen = raw, nil
	}
	doc, err := jsonx.Decode(text, jsonx.Limits{})
	if err != nil {
		return nil, err
	}
	if object, ok := doc.(map[string]any); ok {
		for _, name := range unseen {
			delete(object, name)
		}
	}
	plain, err := jsonx.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return jsonx.Canonical(plain)
}

// Restore is the tool as it was taken.
func (p Pin) Restore() (toolroom.Tool, error) {
	var tool toolroom.Tool
	err := json.Unmarshal(p.Definition, &tool)
	tool.Raw = slices.Clone(p.Raw)
	return tool, err
}

// Digest names a set of pins, for people to say which one they have seen: the
// first 12 characters of the SHA-256, in hex, over tools and hashes.
func Digest(pins []Pin) string {
	sorted := slices.Clone(pins)
	slices.SortFunc(sorted, func(a, b Pin) int { return compare(a.Tool, b.Tool) })
	h := sha256.New()
	for _, p := range sorted {
		h.Write([]byte(p.Tool + "\x00" + p.Hash + "\x00"))
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
