package lockdown

// The launcher starts a program inside the namespaces of a network jail, which package
// netjail makes: it mounts, hands the proxy's socket to the server, gives up its rights and
// executes the program. The small binary of guests, which starts sooner, can be one.

// JailArg is the first argument of a binary that runs as the launcher: its main must call
// [JailMain].
const JailArg = "__netjail"

// JailOrder is what the launcher reads from its socket before it begins.
type JailOrder struct {
	HostNetwork, Guarded bool
	Binds                []Bind
}

// JailMessage is what the launcher sends on its socket, as JSON. With Proxy it carries the
// listening socket. The end of the stream means that the program has been executed.
type JailMessage struct {
	Proxy bool   `json:"proxy,omitempty"`
	Error string `json:"error,omitempty"`
	// Missing means that the program does not exist.
	Missing bool `json:"missing,omitempty"`
}
