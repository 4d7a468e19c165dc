package source

import "github.com/toolroom/toolroom"

// Noticer is implemented by sources that tell their clients, outside of any call,
// what means nothing here.
type Noticer interface {
	// Notices sets the function that hears them. It is called at most once, before
	// any other method, and heard may be called from any goroutine. It must not
	// block.
	Notices(heard func(Notice))
}

// Notice is what a source told its clients.
type Notice struct {
	toolroom.Notice
	// To is the key of the identity ([toolroom.Identity.Key]) whose connection it
	// came on; Everybody says that the connection is that of all callers.
	To        string
	Everybody bool
	// For reports whether it is meant for a client that can be asked as a says; nil
	// is all.
	For func(a Asker) bool
}
