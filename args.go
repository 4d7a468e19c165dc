package toolroom

import (
	"encoding/json"
	"fmt"
)

// Args are arguments as a Go map.
type Args map[string]any

// JSON encodes the arguments. It panics on values that JSON cannot represent, such as a
// channel, because that is a programming mistake.
func (a Args) JSON() json.RawMessage {
	data, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("toolroom.Args: %v", err))
	}
	return data
}
