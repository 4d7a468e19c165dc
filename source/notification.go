package source

import (
	"encoding/json"

	"github.com/toolroom/toolroom"
)

// Events are the functions by which a [Notifier] reports. None is nil, all may be called
// from any goroutine, and none blocks.
type Events struct {
	// ToolsChanged reports that the tools, or the lists of the [Library], have changed.
	ToolsChanged func()
	// ResourceChanged reports that a resource has changed. Params are what the source's
	// own protocol said about it; nil says nothing but the URI.
	ResourceChanged func(uri string, params json.RawMessage)
	// Notified forwards a notification to clients, which Toolroom does not interpret.
	Notified func(Notification)
}

// Notification is a message that a source sent to its clients.
type Notification struct {
	toolroom.Notice
	// To is the key of the identity ([toolroom.Identity.Key]) on whose connection
	// the notification arrived. Everybody means that all callers share the
	// connection.
	To        string
	Everybody bool
	// For reports whether the notification is meant for a client with the
	// capabilities of a; nil means all clients.
	For func(a Asker) bool
}
