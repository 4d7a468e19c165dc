package mcpsource

import (
	"encoding/json"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// What a server is told of its client. An older one hears it once for a whole
// connection: that there are folders is not said, for it would take the folders of
// one caller for everybody's. The connection of those who run Toolroom, which reads
// the lists, tells all: a server keeps tools with pages from everybody where it is
// not told that somebody shows pages. So does a server on stdio hear, which is one
// process for all.
const (
	follows = `"` + taskExtension + `":{}` // tasks are followed here, whoever calls
	shows   = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	forAll  = `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{` + follows + `,"` + appExtension + `":` + shows + `}}`
)

// appExtension is MCP Apps: tools with a page, which is a resource.
const appExtension = "io.modelcontextprotocol/ui"

// abilities are those of a client that a server is told of: what it can be asked,
// and whether it shows the pages of apps. The values are the client's own; nil for
// what it cannot. An extension that is not known here is not told: what a server
// then does in another way could not be followed.
type abilities struct{ elicitation, sampling, app json.RawMessage }

// abilitiesOf are those of the client behind an asker.
func abilitiesOf(a source.Asker) (can abilities) {
	if a == nil {
		return can
	}
	if a.Can(source.MethodElicit) {
		can.elicitation = json.RawMessage(`{"form":{}}`)
	}
	if a.Can(source.MethodSample) {
		can.sampling = json.RawMessage(`{}`)
	}
	able, ok := a.(source.Able)
	if !ok {
		return can
	}
	said := able.Capabilities()
	if len(said) <= len("{}") {
		return can
	}
	members, _ := jsonx.Members(said)
	for _, m := range members {
		switch {
		case m.Name == "elicitation" && can.elicitation != nil && isObject(m.Value):
			can.elicitation = m.Value
		case m.Name == "sampling" && can.sampling != nil && isObject(m.Value):
			can.sampling = m.Value
		case m.Name == "extensions":
			extensions, _ := jsonx.Members(m.Value)
			if app := member(extensions, appExtension); isObject(app) {
				can.app = app
			}
		}
	}
	return can
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// text is what a modern server hears with each call.
func (can abilities) text(folders bool) json.RawMessage {
	text := []byte{'{'}
	add := func(name string, value []byte) {
		if value != nil {
			text = append(append(append(append(text, '"'), name...), `":`...), value...)
			text = append(text, ',')
		}
	}
	add("elicitation", can.elicitation)
	add("sampling", can.sampling)
	if folders {
		add("roots", []byte("{}"))
	}
	text = append(text, `"extensions":{`+follows...)
	if can.app != nil {
		text = append(append(text, `,"`+appExtension+`":`...), can.app...)
	}
	return append(text, "}}"...)
}

// lasting is what an older server hears, once. Every set of it has a session, and
// so it says no more than what it is: a client could have as many sessions as it
// finds words.
func (can abilities) lasting() string {
	if members := can.elicitation; members != nil {
		// An empty one is a form (2025-11-25).
		can.elicitation = subset(members, "form", "url")
		if string(can.elicitation) == "{}" {
			can.elicitation = json.RawMessage(`{"form":{}}`)
		}
	}
	if members := can.sampling; members != nil {
		can.sampling = subset(members, "context", "tools")
	}
	if can.app != nil {
		can.app = json.RawMessage(shows)
	}
	return string(can.text(false))
}

// subset is an object with those of the names that another has.
func subset(of json.RawMessage, names ...string) json.RawMessage {
	members, _ := jsonx.Members(of)
	var kept []jsonx.Member
	for _, name := range names {
		if isObject(member(members, name)) {
			kept = append(kept, jsonx.Member{Name: name, Value: json.RawMessage("{}")})
		}
	}
	return object(kept)
}
