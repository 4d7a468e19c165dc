// Package escape is the ways out of a sandbox, tried from the inside: what a
// program that wants out would do, each by its name. It runs in the sandbox, as
// the program; package sandboxtest judges what it reports.
package escape

// Outside is what is on the host, and what a program should not reach.
type Outside struct {
	TCP      string // address of a listener
	Abstract string // name of an abstract Unix socket, with its @
	Socket   string // path of a Unix socket that all may use
	Secret   string // path of a file that all may read; Word is in it
	Server   int    // pid of the process that started the sandbox
	// SetUID is a program of root's with that bit, which prints its effective user
	// for the argument SetUIDArg; without one, no_new_privs is looked at.
	SetUID string `json:",omitempty"`
}

// Word is what a secret has in it.
const Word = "swordfish"

// Arg makes a binary that knows [Main] try everything; an [Outside] in JSON
// follows.
const Arg = "__escape"

// Succeeded is what is reported of an attempt that was not refused.
const Succeeded = "SUCCEEDED"

// SetUIDArg is the argument for [Outside.SetUID].
const SetUIDArg = "__suid"
