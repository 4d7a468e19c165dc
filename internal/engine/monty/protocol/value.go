package protocol

import "github.com/toolroom/toolroom/bridge"

// What Python values are in Go: those of [bridge.Value] that are no map or
// handle, []any for a list, a tuple and a set, and these.
type (
	// Dict is a dict, in its order. One that is sent is a [bridge.Map].
	Dict []Pair
	// Pair is one entry of a dict, or a named argument.
	Pair struct{ Key, Value any }
	// Instance is an object that the host gives: its attributes are there, and
	// what is not is asked for.
	Instance struct {
		ID    ObjectID
		Class string
		Attrs bridge.Map
	}
	// Object is an object that comes back, or one of a class of the program.
	Object struct {
		ID    ObjectID
		Class Class
		Attrs Dict
	}
	// Function is a function of the host.
	Function struct{ Name string }
	// Class is a class.
	Class struct {
		Name      string
		Dataclass bool
	}
	// Opaque says what something is that has no value outside of the program.
	Opaque string
	// Cycle stands where a container holds itself.
	Cycle struct{}
)

// ObjectID names an object of the host. The first byte of an id that the host
// gives is not 0xff.
type ObjectID [16]byte
