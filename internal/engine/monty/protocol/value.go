package protocol

import "github.com/toolroom/toolroom/bridge"

// A Python value is in Go a [bridge.Value] other than a map or handle, an []any for a list, a
// tuple or a set, or one of these types.
type (
	// Dict is a dict, in its order. To send a dict, use a [bridge.Map].
	Dict []Pair
	// Pair is one entry of a dict, or a named argument.
	Pair struct{ Key, Value any }
	// Instance is an object that is sent to the program. The program looks up attributes
	// that are not in Attrs.
	Instance struct {
		ID    ObjectID
		Class string
		Attrs bridge.Map
	}
	// Object is an object that the program sends: an Instance that it got, or an object of
	// its own classes.
	Object struct {
		ID    ObjectID
		Class Class
		Attrs Dict
	}
	// Function is a function of Toolroom's.
	Function struct{ Name string }
	// Class is a class.
	Class struct {
		Name      string
		Dataclass bool
	}
	// Opaque describes a value that has no form outside of the program.
	Opaque string
	// Cycle stands in place of a container within itself.
	Cycle struct{}
)

// ObjectID identifies an object that was sent to the program. The first byte of the ids that
// Toolroom assigns is not 0xff.
type ObjectID [16]byte
