package quickjs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// readFrame reads one frame, without the length.
func readFrame(in *bufio.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > bridge.DefaultMaxFrame {
		return nil, fmt.Errorf("a frame has %d bytes, more than the limit of %d", size, bridge.DefaultMaxFrame)
	}
	data := make([]byte, size)
	_, err := io.ReadFull(in, data)
	return data, err
}

// message is a frame whose body is not decoded yet.
type message struct {
	kind  bridge.Kind
	id    uint32
	token []byte
	body  []byte
}

func readHeader(data []byte) (message, error) {
	r := heads{rest: data}
	r.bad = r.number(0x80) != 4
	kind, id := r.number(0), r.number(0)
	token := r.take(r.number(0x40))
	if r.bad || kind > math.MaxUint8 || id > math.MaxInt32 {
		return message{}, errors.New("a frame without a header")
	}
	return message{bridge.Kind(kind), uint32(id), token, r.rest}, nil
}

// start makes a job of a start frame and puts the guest's part into its inbox. Of
// the tools, the guest first gets the names that its text mentions, and later the
// tools that it uses: creating an unused variable costs as much as everything else.
func (m message) start() (job, error) {
	value, err := bridge.DecodeValue(m.body)
	body, ok := value.(bridge.Map)
	if err != nil || !ok {
		return job{}, fmt.Errorf("read the start of a run: %w", err)
	}
	j := job{inbox: wasm.NewInbox[Frame](), token: m.token, session: body.Text("session")}
	j.state, _ = body.Get("state").([]byte)
	j.seed, _ = body.Get("seed").([]byte)
	j.tools, _ = body.Get("tools").([]bridge.Value)
	limits, _ := body.Get("limits").(bridge.Map)
	j.memory = limits.Int("memory")
	j.wall, j.cpu = time.Duration(limits.Int("wall"))*time.Millisecond, time.Duration(limits.Int("cpu"))*time.Millisecond
	body = slices.DeleteFunc(body, func(m bridge.Member) bool { return !read[m.Key] || empty(m.Value) })
	body = append(body, bridge.Member{Key: "calls", Value: limits.Int("calls")})
	if names := j.tools.usedGlobals(body.Text("source")); len(names) > 0 {
		body = append(body, bridge.Member{Key: "names", Value: names})
	}
	j.inbox.Put(m.frame(body, nil))
	return j, nil
}

func empty(v bridge.Value) bool {
	switch v := v.(type) {
	case bridge.Map:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}

// result returns the body of a result frame for the guest.
func (m message) result() Frame { return m.frame(bridge.DecodeValue(m.body)) }

// frame returns the message as the guest gets it: as JSON if JSON can hold it,
// because the engine reads JSON much faster than the prelude reads CBOR.
func (m message) frame(value bridge.Value, err error) Frame {
	f := Frame{Kind: uint32(m.kind), ID: m.id, Body: m.body}
	if err == nil && plain(value) {
		if text, err := bridge.ToJSON(value); err == nil {
			f.Body, f.Text = text, true
		}
	}
	return f
}

// read lists the members of a start frame that the prelude reads.
var read = map[string]bool{"source": true, "inputs": true, "withheld": true, "session": true}

// plain reports whether JSON.parse returns exactly the value.
func plain(v bridge.Value) bool {
	switch v := v.(type) {
	case int64:
		return -1<<53 < v && v < 1<<53
	case []byte, time.Time, bridge.Handle, *big.Int:
		return false
	case []bridge.Value:
		for _, item := range v {
			if !plain(item) {
				return false
			}
		}
	case bridge.Map:
		for _, m := range v {
			if !plain(m.Value) {
				return false
			}
		}
	}
	return true
}

// heads reads the CBOR heads at the beginning of a frame.
type heads struct {
	rest []byte
	bad  bool
}

func (r *heads) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *heads) number(major byte) uint64 {
	first := r.take(1)
	if r.bad || first[0]&0xe0 != major {
		r.bad = true
		return 0
	}
	info := first[0] & 0x1f
	if info < 24 {
		return uint64(info)
	}
	if info > 27 {
		r.bad = true
		return 0
	}
	var n uint64
	for _, b := range r.take(1 << (info - 24)) {
		n = n<<8 | uint64(b)
	}
	return n
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
