package module

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// errGarbage means that a module wrote bytes to the bridge that are not a frame of a
// guest.
var errGarbage = errors.New("the module broke the protocol of the bridge")

// bridgeFile is descriptor 3. A module that opens it, by sending hello, is the guest
// of a bridge whose server answers with the start of this run. Its frames are
// forwarded unchanged, because the server validates them.
type bridgeFile struct {
	start []byte // the first frame for the guest
	token []byte
	inbox *wasm.Inbox[[]byte]
	send  func(bridge.Frame) error

	written []byte       // by the guest: the beginning of a frame
	whole   bytes.Buffer // complete frames
	wire    *bridge.Wire // reads them
	unread  []byte       // of the received bytes, the part that the guest has not read
	joined  bool
	ended   bool // the guest has sent its last frame
}

func newBridgeFile(j job, tell func(bridge.Frame) error) *bridgeFile {
	d := &bridgeFile{start: j.start, token: j.token, inbox: j.inbox, send: tell}
	d.wire = bridge.NewWire(&d.whole)
	return d
}

// await waits until there are bytes for the guest, at most for atMost, and reports whether there are.
func (d *bridgeFile) await(ctx context.Context, atMost time.Duration) bool {
	if len(d.unread) == 0 {
		d.unread, _ = d.inbox.Wait(ctx, atMost)
	}
	return len(d.unread) > 0
}

// read copies bytes for the guest to to, and returns their number.
func (d *bridgeFile) read(to []byte) int {
	n := 0
	for n < len(to) {
		if len(d.unread) == 0 {
			var ok bool
			if d.unread, ok = d.inbox.Take(); !ok {
				break
			}
		}
		moved := copy(to[n:], d.unread)
		n, d.unread = n+moved, d.unread[moved:]
	}
	return n
}

// write receives bytes of the guest, and forwards the frames that they complete.
func (d *bridgeFile) write(data []byte) error {
	d.written = append(d.written, data...)
	for !d.ended && len(d.written) >= 4 {
		size := int64(binary.BigEndian.Uint32(d.written))
		if size > bridge.MaxFrame {
			return fmt.Errorf("%w: a frame of %d bytes, the limit is %d", errGarbage, size, bridge.MaxFrame)
		}
		if int64(len(d.written)-4) < size {
			break
		}
		d.whole.Write(d.written[:4+size])
		d.written = append(d.written[:0], d.written[4+size:]...)
		f, _, err := d.wire.Read()
		if err != nil {
			return fmt.Errorf("%w: %w", errGarbage, err)
		}
		if err := d.forward(f); err != nil {
			return err
		}
	}
	return nil
}

func (d *bridgeFile) forward(f bridge.Frame) error {
	switch {
	case f.Kind == bridge.Hello && !d.joined:
		d.joined = true
		d.inbox.Put(d.start)
		return nil
	case !d.joined:
		return fmt.Errorf("%w: the first frame is %s, not hello", errGarbage, f.Kind)
	case !bytes.Equal(f.Token, d.token):
		return fmt.Errorf("%w: a %s frame without the token of the run", errGarbage, f.Kind)
	}
	d.ended = f.Kind == bridge.Done || f.Kind == bridge.Failed
	return d.send(f)
}
