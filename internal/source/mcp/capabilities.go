package mcp

import (
	"encoding/json"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// Client capabilities that servers receive. An older server receives them once for
// a whole connection. They leave out roots there, because the server would take
// the folders of one caller for the folders of all callers. The operator's
// connection, which reads the lists, declares all other capabilities: a server
// hides tools with pages from everybody unless the client declares that it shows
// pages. A stdio server receives the same, because one process serves all callers.
const (
	tasksCapability    = `"` + taskExtension + `":{}` // Toolroom follows tasks for every caller
	appSettings        = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	sharedCapabilities = `{"elicitation":{"form":{},"url":{}},"sampling":{},"extensions":{` + tasksCapability + `,"` + appExtension + `":` + appSettings + `}}`
)

// appExtension is MCP Apps: tools with a page, which is a resource.
const appExtension = "io.modelcontextprotocol/ui"

// clientCapabilities are the client capabilities that a server receives: the questions that
// the client answers, and whether it shows the pages of apps. The values are the
// client's own, or nil for a missing capability. Unknown extensions are left out,
// because Toolroom could not handle a server that behaves differently for them.
type clientCapabilities struct{ elicitation, sampling, app json.RawMessage }

// capabilitiesOf returns the capabilities of the client behind an asker.
func capabilitiesOf(a source.Asker) (can clientCapabilities) {
	if a == nil {
		return can
	}
	if a.Can(source.MethodElicit) {
		can.elicitation = json.RawMessage(`{"form":{}}`)
	}
	if a.Can(source.MethodSample) {
		can.sampling = json.RawMessage(`{}`)
	}
	said := a.Capabilities()
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
			extensions, _ := mcp.ReadObject(m.Value)
			if app := extensions.Get(appExtension); isObject(app) {
				can.app = app
			}
		}
	}
	return can
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// forModern returns the capabilities that a modern server receives with each call, as JSON.
// folders reports whether the client has roots.
func (can clientCapabilities) forModern(folders bool) json.RawMessage {
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
	text = append(text, `"extensions":{`+tasksCapability...)
	if can.app != nil {
		text = append(append(text, `,"`+appExtension+`":`...), can.app...)
	}
	return append(text, "}}"...)
}

// forLegacy returns the capabilities that an older server receives once for a session, as JSON.
// It reduces them to the known members: each distinct set has a separate session, so a client
// could otherwise open any number of sessions.
func (can clientCapabilities) forLegacy() string {
	if members := can.elicitation; members != nil {
		// An empty object means that forms are supported (2025-11-25).
		can.elicitation = subset(members, "form", "url")
		if string(can.elicitation) == "{}" {
			can.elicitation = json.RawMessage(`{"form":{}}`)
		}
	}
	if members := can.sampling; members != nil {
		can.sampling = subset(members, "context", "tools")
	}
	if can.app != nil {
		can.app = json.RawMessage(appSettings)
	}
	return string(can.forModern(false))
}

// subset returns an object with those of the named members whose value in of is an object. Their
// values are empty objects.
func subset(of json.RawMessage, names ...string) json.RawMessage {
	o, _ := mcp.ReadObject(of)
	kept := mcp.Object{}
	for _, name := range names {
		if isObject(o.Get(name)) {
			kept.Set(name, json.RawMessage("{}"))
		}
	}
	return kept.JSON()
}
