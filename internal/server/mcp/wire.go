package mcpserver

import (
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// wireResult is a result that goes out member by member, so that what a source
// sent, and what the SDK has no type for, reaches the client as it is.
type wireResult struct {
	mcp.ResultBase
	members map[string]any
}

// relayed makes a result of a JSON object as a source sent it.
func relayed(object json.RawMessage) (*wireResult, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	r := &wireResult{members: make(map[string]any, len(members)+3)}
	for name, value := range members {
		r.members[name] = value
	}
	if raw, ok := members["_meta"]; ok {
		meta := map[string]json.RawMessage{}
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, err
		}
		r.Meta = mcp.Meta{}
		for name, value := range meta {
			r.Meta[name] = value
		}
	}
	return r, nil
}

// of fills in what results of a revision must say of themselves.
func (r *wireResult) of(version string) *wireResult {
	if version >= firstModern {
		if _, said := r.members["resultType"]; !said {
			r.members["resultType"] = "complete"
		}
	}
	return r
}

// MarshalJSON writes the members and the metadata.
func (r *wireResult) MarshalJSON() ([]byte, error) {
	all := maps.Clone(r.members)
	if len(r.Meta) > 0 {
		all["_meta"] = r.Meta
	}
	return jsonx.Marshal(all)
}
