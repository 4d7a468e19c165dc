package mcp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// result is a result that goes out member by member, so that what a source sent reaches
// the client as it is.
type result struct {
	members object
	// sentMeta is the metadata that the source sent.
	sentMeta object
	// note is what became of the call, ready to be written; nil for none.
	note []byte
	// named says that the client wants the name of the server in it.
	named bool
}

// serverInfo is where results of 2026-07-28 name the server.
const serverInfo = "io.modelcontextprotocol/serverInfo"

// object is a JSON object: members that a source sent keep their order, the
// others follow by name.
type object struct {
	sent []jsonx.Member // without value where own has one
	own  map[string]any
}

// members makes an object of which a source sent nothing.
func members(values map[string]any) object { return object{own: values} }

// readObject reads an object as a source sent it. Of members with the same name
// the last one counts.
func readObject(raw json.RawMessage) (object, error) {
	sent, err := jsonx.Members(raw)
	if err != nil {
		return object{}, err
	}
	return object{sent: lastOfEach(sent)}, nil
}

func lastOfEach(sent []jsonx.Member) []jsonx.Member {
	kept := sent[:0]
	for _, m := range sent {
		if i := indexOf(kept, m.Name); i >= 0 {
			kept[i] = m
		} else {
			kept = append(kept, m)
		}
	}
	return kept
}

func indexOf(list []jsonx.Member, name string) int {
	return slices.IndexFunc(list, func(m jsonx.Member) bool { return m.Name == name })
}

func (o *object) has(name string) bool {
	_, own := o.own[name]
	return own || indexOf(o.sent, name) >= 0
}

func (o *object) set(name string, value any) {
	if i := indexOf(o.sent, name); i >= 0 {
		o.sent[i].Value = nil // it has its place
	}
	if o.own == nil {
		o.own = map[string]any{}
	}
	o.own[name] = value
}

func (o *object) drop(name string) {
	delete(o.own, name)
	if i := indexOf(o.sent, name); i >= 0 {
		o.sent = slices.Delete(o.sent, i, i+1)
	}
}

// raw is a member as the source sent it, nil for any other.
func (o *object) raw(name string) json.RawMessage {
	if i := indexOf(o.sent, name); i >= 0 {
		return o.sent[i].Value
	}
	return nil
}

// append writes the members into the object that dst has begun, meta in the place
// of the metadata, or last.
func (o *object) append(dst, meta []byte) ([]byte, error) {
	var err error
	for _, m := range o.sent {
		switch {
		case m.Name == "_meta" && meta != nil:
			dst = appendMember(dst, m.Name, meta)
		case m.Value != nil:
			dst = appendMember(dst, m.Name, m.Value)
		default:
			if dst, err = appendOwn(dst, m.Name, o.own[m.Name]); err != nil {
				return nil, err
			}
		}
	}
	if len(o.own) > 0 {
		for _, name := range slices.Sorted(maps.Keys(o.own)) {
			if indexOf(o.sent, name) >= 0 {
				continue
			}
			if dst, err = appendOwn(dst, name, o.own[name]); err != nil {
				return nil, err
			}
		}
	}
	if meta != nil && indexOf(o.sent, "_meta") < 0 {
		dst = appendMember(dst, "_meta", meta)
	}
	return dst, nil
}

func appendOwn(dst []byte, name string, value any) ([]byte, error) {
	text, ready := value.(json.RawMessage)
	if !ready {
		var err error
		if text, err = jsonx.Marshal(value); err != nil {
			return nil, err
		}
	}
	return appendMember(dst, name, text), nil
}

// appendMember writes a member into the object that dst has begun.
func appendMember(dst []byte, name string, value []byte) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(jsonx.AppendString(dst, name), ':')
	return append(dst, value...)
}

// MarshalJSON writes the members.
func (o object) MarshalJSON() ([]byte, error) {
	text, err := o.append([]byte{'{'}, nil)
	return append(text, '}'), err
}

// relayed makes a result of a JSON object as a source sent it.
func relayed(raw json.RawMessage) (*result, error) {
	sent, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	r := &result{members: sent}
	if raw = r.members.raw("_meta"); raw != nil && string(raw) != "null" {
		meta, err := readObject(raw)
		if err != nil {
			return nil, err
		}
		meta.drop(serverInfo) // the answer is ours
		meta.drop(metaResult)
		r.sentMeta = meta
	}
	return r, nil
}

// of fills in what results of a revision must say of themselves, and takes out
// what older ones have no notion of.
func (r *result) of(version string) *result {
	r.named = version >= firstModern
	switch {
	case !r.named:
		r.members.drop("resultType")
	case !r.members.has("resultType"):
		r.members.set("resultType", complete)
	}
	return r
}

var complete = json.RawMessage(`"complete"`)

// MarshalJSON writes the members and the metadata.
func (r *result) MarshalJSON() ([]byte, error) { return r.append(nil, nil) }

// append writes the members and the metadata, with the name of the server for a client
// that wants it in each result.
func (r *result) append(dst []byte, server json.RawMessage) ([]byte, error) {
	if !r.named {
		server = nil
	}
	var meta []byte
	if server != nil || len(r.sentMeta.sent) > 0 || r.note != nil {
		meta = make([]byte, 0, len(r.note)+256)
		var err error
		if meta, err = r.sentMeta.append(append(meta, '{'), nil); err != nil {
			return nil, err
		}
		if server != nil {
			meta = appendMember(meta, serverInfo, server)
		}
		if r.note != nil {
			meta = appendMember(meta, metaResult, r.note)
		}
		meta = append(meta, '}')
	} else {
		r.members.drop("_meta")
	}
	dst, err := r.members.append(append(dst, '{'), meta)
	return append(dst, '}'), err
}

// withMember is an object with another value for one of its members, which it has
// or gets. It is nil for what is no object.
func withMember(object json.RawMessage, name string, value any) json.RawMessage {
	o, err := readObject(object)
	if err != nil {
		return nil
	}
	o.set(name, value)
	text, err := jsonx.Marshal(o)
	if err != nil {
		return nil
	}
	return text
}
