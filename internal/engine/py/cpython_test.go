package py

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
	files "github.com/toolroom/toolroom/internal/guest"
)

// Compiled is the folder of compiled code shared by all machines of the tests. TestMain
// sets it.
var Compiled string

func open(t testing.TB) *Machine {
	t.Helper()
	m, err := NewMachine(t.Context(), files.PythonFiles(), Compiled)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func isolate(t testing.TB, m *Machine) *Isolate {
	t.Helper()
	i, err := m.Isolate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// eval runs a program and returns its last frame.
func eval(t testing.TB, i *Isolate, source string) (bridge.Map, End, error) {
	t.Helper()
	inbox := wasm.NewInbox[[]byte]()
	start := bridge.Map{{Key: "source", Value: source}, {Key: "session", Value: "s"}}
	body, err := bridge.AppendValue([]byte{0x84, 0x18, byte(bridge.Start), 0, 0x40}, start)
	if err != nil {
		t.Fatal(err)
	}
	inbox.Put([]byte{0, 0, byte(len(body) >> 8), byte(len(body))})
	inbox.Put(body)
	var last bridge.Map
	end, err := i.Run(t.Context(), Port{Inbox: inbox, Send: func(frame []byte) (bool, error) {
		value, err := bridge.DecodeValue(frame)
		if err != nil {
			return false, err
		}
		list := value.([]bridge.Value)
		last = list[3].(bridge.Map)
		kind := bridge.Kind(list[0].(int64))
		return kind == bridge.Done || kind == bridge.Failed, nil
	}})
	return last, end, err
}

func TestAProgramRunsInAnInterpreterThatNoOtherHasTouched(t *testing.T) {
	t.Parallel()
	m := open(t)
	for n := range 20 {
		i := isolate(t, m)
		began := time.Now()
		last, end, err := eval(t, i, "import sys, builtins\nseen = hasattr(builtins, 'leak')\nbuiltins.leak = sys.leak = 1\nseen")
		t.Log(n, time.Since(began))
		if end != Finished || err != nil || last.Get("value") != bridge.Value(false) {
			t.Fatalf("end %d, %v, %v", end, err, last)
		}
		began = time.Now()
		i.Release()
		t.Log("reset", time.Since(began))
	}
}
