package microvm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"
)

// qmp is a connection to QEMU's monitor: JSON objects, one per line (QEMU's
// docs/interop/qmp-spec). Only one goroutine may use it at a time.
type qmp struct {
	conn *net.UnixConn
	in   *bufio.Reader
}

type qmpAnswer struct {
	Greeting json.RawMessage `json:"QMP"`
	Event    string          `json:"event"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

func newQMP(ctx context.Context, conn *net.UnixConn) (*qmp, error) {
	q := &qmp{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	defer deadline(ctx, conn)()
	if a, err := q.read(); err != nil || a.Greeting == nil {
		return nil, fmt.Errorf("QEMU's monitor sends no greeting: %w", err)
	}
	return q, q.do(ctx, "qmp_capabilities", nil, nil)
}

func (q *qmp) read() (a qmpAnswer, err error) {
	line, err := q.in.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}

// do executes a command and decodes its answer into result, which may be nil.
func (q *qmp) do(ctx context.Context, command string, arguments, result any) error {
	return q.send(ctx, command, arguments, result, nil)
}

// passFile passes QEMU an open file under a name.
func (q *qmp) passFile(ctx context.Context, name string, f *os.File) error {
	return q.send(ctx, "getfd", map[string]string{"fdname": name}, nil, rights(f))
}

func (q *qmp) send(ctx context.Context, command string, arguments, result any, rights []byte) error {
	defer deadline(ctx, q.conn)()
	message := map[string]any{"execute": command}
	if arguments != nil {
		message["arguments"] = arguments
	}
	line, err := json.Marshal(message)
	if err == nil {
		_, _, err = q.conn.WriteMsgUnix(append(line, '\n'), rights, nil)
	}
	if err != nil {
		return fmt.Errorf("QEMU: %s: %w", command, err)
	}
	for {
		a, err := q.read()
		switch {
		case err != nil:
			return fmt.Errorf("QEMU: %s: %w", command, err)
		case a.Error != nil:
			return fmt.Errorf("QEMU: %s: %s (%s)", command, a.Error.Desc, a.Error.Class)
		case a.Return == nil: // an event
			continue
		case result == nil:
			return nil
		}
		return json.Unmarshal(a.Return, result)
	}
}

// migrate saves a VM's state to a file or loads it, except memory in a shared file, and
// waits until that is done.
func (q *qmp) migrate(ctx context.Context, command string, f *os.File) error {
	sharedStays := map[string]any{"capabilities": []map[string]any{{"capability": "x-ignore-shared", "state": true}}}
	if err := q.do(ctx, "migrate-set-capabilities", sharedStays, nil); err != nil {
		return err
	}
	if err := q.passFile(ctx, "state", f); err != nil {
		return err
	}
	if err := q.do(ctx, command, map[string]string{"uri": "fd:state"}, nil); err != nil {
		return err
	}
	for {
		var state struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := q.do(ctx, "query-migrate", nil, &state); err != nil {
			return err
		}
		switch state.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("QEMU: %s: %s %s", command, state.Status, state.Error)
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// deadline makes reads and writes of conn fail when ctx is done, until release is called.
func deadline(ctx context.Context, conn net.Conn) (release func()) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}
