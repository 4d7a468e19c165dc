package bridge

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// TestWhatAProgramSentLastArrivesAfterItsEnd has a run end while what its program sent is
// still on its way to a slow reader.
func TestWhatAProgramSentLastArrivesAfterItsEnd(t *testing.T) {
	t.Parallel()
	for name, ended := range map[string]bool{"it ended its stream": true, "it did not": false} {
		lines := NewLines(func(uint64, Map) error { return nil })
		line, err := lines.handleFrame(Frame{ID: 1, Body: Map{{"to", StdioAddress}}})
		if err != nil {
			t.Fatal(err)
		}
		sent := bytes.Repeat([]byte("x"), lineWindow)
		if err := lines.Handle(Frame{ID: 1, Body: Map{{"data", sent}}}); err != nil {
			t.Fatal(err)
		}
		if ended {
			if err := lines.Handle(Frame{ID: 1, Body: Map{{"end", true}}}); err != nil {
				t.Fatal(err)
			}
		}
		conn, reader := net.Pipe() // a write waits for its reader
		carried := make(chan struct{})
		go func() {
			defer close(carried)
			line.Relay(conn, conn)
		}()
		lines.finish()
		if !ended {
			<-carried // a line that may go on for ever is closed
		}
		got, err := io.ReadAll(reader)
		if err != nil || ended != bytes.Equal(got, sent) {
			t.Errorf("%s: %d of %d bytes arrived, %v", name, len(got), len(sent), err)
		}
		select {
		case <-carried:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the line is carried for ever", name)
		}
	}
}
