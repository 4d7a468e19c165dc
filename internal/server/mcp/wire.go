package mcpserver

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// wireResult is a result that goes out member by member, so that what a source
// sent, and what the SDK has no type for, reaches the client as it is.
type wireResult struct {
	mcp.ResultBase
	members object
	// metaOrder is the order of the metadata that the source sent.
	metaOrder []string
}

// object is a JSON object: members that a source sent keep their order, the
// others follow by name.
type object struct {
	order  []string
	values map[string]any
}

// members makes an object of which a source sent nothing.
func members(values map[string]any) object { return object{values: values} }

// readObject reads an object as a source sent it.
func readObject(raw json.RawMessage) (object, error) {
	sent, err := jsonx.Members(raw)
	if err != nil {
		return object{}, err
	}
	o := object{order: make([]string, 0, len(sent)), values: make(map[string]any, len(sent)+3)}
	for _, m := range sent {
		if _, again := o.values[m.Name]; !again {
			o.order = append(o.order, m.Name)
		}
		o.values[m.Name] = m.Value
	}
	return o, nil
}

func (o object) has(name string) bool { _, ok := o.values[name]; return ok }

func (o object) set(name string, value any) { o.values[name] = value }

func (o object) drop(name string) { delete(o.values, name) }

// raw is a member as the source sent it, nil for any other.
func (o object) raw(name string) json.RawMessage {
	value, _ := o.values[name].(json.RawMessage)
	return value
}

// MarshalJSON writes the members.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	write := func(name string, value any) error {
		key, err := jsonx.Marshal(name)
		if err != nil {
			return err
		}
		text, sent := value.(json.RawMessage)
		if !sent {
			if text, err = jsonx.Marshal(value); err != nil {
				return err
			}
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
		return nil
	}
	written := make(map[string]bool, len(o.order))
	for _, name := range o.order {
		if value, there := o.values[name]; there {
			written[name] = true
			if err := write(name, value); err != nil {
				return nil, err
			}
		}
	}
	if len(written) < len(o.values) {
		for _, name := range slices.Sorted(maps.Keys(o.values)) {
			if written[name] {
				continue
			}
			if err := write(name, o.values[name]); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// relayed makes a result of a JSON object as a source sent it.
func relayed(raw json.RawMessage) (*wireResult, error) {
	sent, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	r := &wireResult{members: sent}
	if raw := sent.raw("_meta"); raw != nil && string(raw) != "null" {
		meta, err := readObject(raw)
		if err != nil {
			return nil, err
		}
		// Whose answer it is, the SDK says of us.
		meta.drop(mcp.MetaKeyServerInfo)
		r.Meta, r.metaOrder = meta.values, meta.order
	}
	return r, nil
}

// of fills in what results of a revision must say of themselves, and takes out
// what older ones have no notion of.
func (r *wireResult) of(version string) *wireResult {
	switch {
	case version < firstModern:
		r.members.drop("resultType")
	case !r.members.has("resultType"):
		r.members.set("resultType", "complete")
	}
	return r
}

// MarshalJSON writes the members and the metadata.
func (r *wireResult) MarshalJSON() ([]byte, error) {
	all := object{order: r.members.order, values: maps.Clone(r.members.values)}
	all.drop("_meta")
	if len(r.Meta) > 0 {
		all.set("_meta", object{order: r.metaOrder, values: r.Meta})
	}
	return all.MarshalJSON()
}
