package monty

import (
	"encoding/binary"
	"fmt"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// stateMagic begins the state of a session; the protocol's version follows, and
// then what Monty dumped.
const stateMagic = "toolroom py-lite\n"

// dump asks for the state of the session.
func (r *run) dump() ([]byte, error) {
	if err := r.w.conn.Send(protocol.Dump()); err != nil {
		return nil, r.gone(err)
	}
	e, err := r.w.conn.Receive()
	if err != nil {
		return nil, r.gone(err)
	}
	if e.Kind != protocol.DumpResult {
		return nil, fmt.Errorf("the worker answered a dump with an event of kind %d", e.Kind)
	}
	state := binary.BigEndian.AppendUint32([]byte(stateMagic), r.w.version)
	return append(state, e.State...), nil
}

func readState(state []byte, version uint32) ([]byte, error) {
	head := len(stateMagic) + 4
	if len(state) < head || string(state[:len(stateMagic)]) != stateMagic {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the state of the session is not one of the engine %s", Name).
			WithHint("begin a new session")
	}
	if kept := binary.BigEndian.Uint32(state[len(stateMagic):]); kept != version {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the state of the session is of version %d of Monty's protocol, and the worker speaks %d", kept, version).
			WithHint("begin a new session")
	}
	return state[head:], nil
}
