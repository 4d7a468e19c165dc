package source

import "github.com/toolroom/toolroom"

// NotificationForwarder is implemented by sources that send notifications
// outside of any call which Toolroom forwards to clients without interpreting
// them.
type NotificationForwarder interface {
	// ForwardNotifications sets the function that receives the notifications. It
	// is called at most once, before any other method. The source may call forward
	// from any goroutine; forward does not block.
	ForwardNotifications(forward func(Notification))
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
