// Package escape implements attempts to get out of a sandbox. It runs inside the sandbox
// as the program; package sandboxtest judges the results.
package escape

// Outside describes targets on the host machine that a program must not reach.
type Outside struct {
	TCP      string // address of a listener
	Abstract string // name of an abstract Unix socket, with its @
	Socket   string // path of a Unix socket that all users may use
	Secret   string // path of a file that all users may read; it contains Word
	Server   int    // pid of the process that started the sandbox
	// SetUID is a set-user-ID program of root that prints its effective user when called
	// with SetUIDArg. If it is empty, Try checks no_new_privs instead.
	SetUID string `json:",omitempty"`
}

// Word is the content of the secret.
const Word = "swordfish"

// Arg makes a binary call [Main]. The next argument is an [Outside] in JSON.
const Arg = "__escape"

// Succeeded is the result of an attempt that was not refused.
const Succeeded = "SUCCEEDED"

// SetUIDArg is the argument of [Outside.SetUID].
const SetUIDArg = "__suid"
