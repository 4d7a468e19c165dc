package monty

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// state is the session state between runs. Encoded, it is the exported fields as a line of
// JSON, followed by Monty's dump.
type state struct {
	Engine   string
	Protocol uint32
	Names    []savedNamespace `json:",omitempty"`
	// Bound are the names that programs have bound, as in [program.Prepared.BoundNames]; nil
	// in states from before the field existed.
	Bound []string
	dump  []byte
}

// dumpState asks the worker for the state of the session, and returns it encoded.
func (r *run) dumpState() ([]byte, error) {
	if err := r.w.conn.Send(protocol.Dump()); err != nil {
		return nil, r.workerError(err)
	}
	e, err := r.w.conn.Receive()
	if err != nil {
		return nil, r.workerError(err)
	}
	if e.Kind != protocol.DumpResult {
		return nil, fmt.Errorf("the worker answered a dump with an event of kind %d", e.Kind)
	}
	head, err := json.Marshal(state{Engine: Name, Protocol: r.w.version, Names: r.names.savedNamespaces(), Bound: r.ready.BoundNames()})
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), e.State...), nil
}

// readState decodes the state of a session. The text is empty for a new session.
func readState(text []byte) (state, error) {
	s := state{Bound: []string{}}
	if len(text) == 0 {
		return s, nil
	}
	s.Bound = nil
	head, dump, found := bytes.Cut(text, []byte("\n"))
	if !found || json.Unmarshal(head, &s) != nil || s.Engine != Name || slices.ContainsFunc(s.Names, savedNamespace.isEmpty) {
		return s, toolroom.Errorf(toolroom.CodeInvalidArguments, "the state of the session was not made by the engine %s", Name).
			WithHint("begin a new session")
	}
	s.dump = dump
	return s, nil
}

// checkVersion returns an error if a worker with this version of the protocol cannot continue
// from the state.
func (s state) checkVersion(version uint32) error {
	if s.Protocol != version {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the state of the session is of version %d of Monty's protocol, and the worker speaks %d", s.Protocol, version).
			WithHint("begin a new session")
	}
	return nil
}

// Sessions returns python.
func (e *Engine) Sessions() []string { return []string{"python"} }
