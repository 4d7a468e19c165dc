package mcp

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// result is the result of a request. It is written member by member, so that members that a
// source sent reach the client unchanged.
type result struct {
	members object
	// sentMeta is the metadata that the source sent.
	sentMeta object
	// callMeta is the JSON of the member metaResultKey; nil means none.
	callMeta []byte
	// wantsServerInfo means that the metadata names the server.
	wantsServerInfo bool
}

// metaServerInfo is the member of _meta in which results of 2026-07-28 name the server.
const metaServerInfo = "io.modelcontextprotocol/serverInfo"

// object is a JSON object with members that a source sent, which keep their order, and others,
// which follow sorted by name.
type object struct {
	sent []jsonx.Member // Value is nil if own has replaced it
	own  map[string]any
}

// newObject returns an object without members of a source.
func newObject(values map[string]any) object { return object{own: values} }

// readObject reads an object as a source sent it. Of members with the same name
// the last one counts.
func readObject(raw json.RawMessage) (object, error) {
	sent, err := jsonx.Members(raw)
	if err != nil {
		return object{}, err
	}
	return object{sent: withoutDuplicates(sent)}, nil
}

func withoutDuplicates(sent []jsonx.Member) []jsonx.Member {
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
		o.sent[i].Value = nil // the member keeps its place
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

// raw returns a member as the source sent it, or nil if the source did not send it or its value
// has been replaced.
func (o *object) raw(name string) json.RawMessage {
	if i := indexOf(o.sent, name); i >= 0 {
		return o.sent[i].Value
	}
	return nil
}

// append appends the members to dst, which ends within an object. A meta that is not nil
// replaces _meta, or is added as the last member.
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

// appendMember appends a member to dst, which ends within an object.
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

// parseResult returns a result with the members of a JSON object that a source sent.
func parseResult(raw json.RawMessage) (*result, error) {
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
		meta.drop(metaServerInfo) // the response names this server instead
		meta.drop(metaResultKey)
		r.sentMeta = meta
	}
	return r, nil
}

// forVersion adds the members that a revision requires in results, removes those that it does
// not know, and returns r.
func (r *result) forVersion(version string) *result {
	r.wantsServerInfo = version >= firstModern
	switch {
	case !r.wantsServerInfo:
		r.members.drop("resultType")
	case !r.members.has("resultType"):
		r.members.set("resultType", complete)
	}
	return r
}

var complete = json.RawMessage(`"complete"`)

// MarshalJSON writes the members and the metadata.
func (r *result) MarshalJSON() ([]byte, error) { return r.append(nil, nil) }

// append appends the members and the metadata to dst. The metadata includes server, the JSON
// of the server's name, if wantsServerInfo is set.
func (r *result) append(dst []byte, server json.RawMessage) ([]byte, error) {
	if !r.wantsServerInfo {
		server = nil
	}
	var meta []byte
	if server != nil || len(r.sentMeta.sent) > 0 || r.callMeta != nil {
		meta = make([]byte, 0, len(r.callMeta)+256)
		var err error
		if meta, err = r.sentMeta.append(append(meta, '{'), nil); err != nil {
			return nil, err
		}
		if server != nil {
			meta = appendMember(meta, metaServerInfo, server)
		}
		if r.callMeta != nil {
			meta = appendMember(meta, metaResultKey, r.callMeta)
		}
		meta = append(meta, '}')
	} else {
		r.members.drop("_meta")
	}
	dst, err := r.members.append(append(dst, '{'), meta)
	return append(dst, '}'), err
}

// withMember returns the JSON of an object with one member set to value. It returns nil if
// object is not a JSON object.
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
