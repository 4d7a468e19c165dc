package quickjs

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// newJob returns the job of a start frame and puts the guest's part into its inbox. The guest
// first gets only the names of tools that its text mentions, and later the tools that it uses:
// creating the variables of all tools would take as long as everything else.
func newJob(start bridge.Frame) (job, error) {
	body := start.Body
	j := job{inbox: wasm.NewInbox[Frame](), token: start.Token, session: body.Text("session")}
	j.state, _ = body.Get("state").([]byte)
	j.seed, _ = body.Get("seed").([]byte)
	j.tools, _ = body.Get("tools").([]bridge.Value)
	limits, _ := body.Get("limits").(bridge.Map)
	j.memory = limits.Int("memory")
	j.wall, j.cpu = time.Duration(limits.Int("wall"))*time.Millisecond, time.Duration(limits.Int("cpu"))*time.Millisecond
	body = slices.DeleteFunc(body, func(m bridge.Member) bool { return !preludeReads[m.Key] || isEmpty(m.Value) })
	body = append(body, bridge.Member{Key: "calls", Value: limits.Int("calls")})
	if names := j.tools.usedGlobals(body.Text("source")); len(names) > 0 {
		body = append(body, bridge.Member{Key: "names", Value: names})
	}
	first, err := newFrame(bridge.Frame{Kind: start.Kind, ID: start.ID, Body: body})
	j.inbox.Put(first)
	return j, err
}

func isEmpty(v bridge.Value) bool {
	switch v := v.(type) {
	case bridge.Map:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}

// newFrame converts a frame of the server for the guest: to JSON if JSON can represent it,
// because the engine reads JSON much faster than the prelude reads CBOR.
func newFrame(from bridge.Frame) (f Frame, err error) {
	f = Frame{Kind: uint32(from.Kind), ID: uint32(from.ID)}
	if fitsJSON(from.Body) {
		if f.Body, err = bridge.ToJSON(from.Body); err == nil {
			f.Text = true
			return f, nil
		}
	}
	f.Body, err = bridge.AppendValue(nil, from.Body)
	return f, err
}

// preludeReads lists the members of a start frame that the prelude reads.
var preludeReads = map[string]bool{"source": true, "inputs": true, "withheld": true, "session": true}

// fitsJSON reports whether JSON can represent a value exactly, as JSON.parse reads it.
func fitsJSON(v bridge.Value) bool {
	switch v := v.(type) {
	case int64:
		return -1<<53 < v && v < 1<<53
	case []byte, time.Time, bridge.Handle, *big.Int:
		return false
	case []bridge.Value:
		for _, item := range v {
			if !fitsJSON(item) {
				return false
			}
		}
	case bridge.Map:
		for _, m := range v {
			if !fitsJSON(m.Value) {
				return false
			}
		}
	}
	return true
}

func appendHead(to []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(to, major|byte(n))
	case n <= math.MaxUint8:
		return append(to, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(to, major|25), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(to, major|26), uint32(n))
}
