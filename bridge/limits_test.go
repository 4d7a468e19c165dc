package bridge_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

func TestALongIntegerIsReadFastOrRefused(t *testing.T) {
	t.Parallel()
	for digits, fits := range map[int]bool{20: true, 2001: true, 157_000: true, 160_000: false, 16_000_000: false} {
		text := "-7" + strings.Repeat("1234567890", digits/10)[:digits-1]
		started := time.Now()
		v, err := bridge.FromJSON(json.RawMessage(`{"n":[` + text + `]}`))
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("%d digits took %s", digits, took)
		}
		if fits != (err == nil) || err != nil && len(err.Error()) > 200 {
			t.Errorf("%d digits: %.300v", digits, err)
		}
		if !fits {
			continue
		}
		if back, err := bridge.ToJSON(v); err != nil || string(back) != `{"n":[`+text+`]}` {
			t.Errorf("%d digits became %.100s, %v", digits, back, err)
		}
		frame, err := bridge.AppendValue(nil, v)
		if err != nil {
			t.Errorf("%d digits cannot be sent: %v", digits, err)
		} else if _, err := bridge.DecodeValue(frame); err != nil {
			t.Errorf("%d digits are sent and refused: %v", digits, err)
		}
	}
}

func TestWhatAReaderRefusesIsNotWritten(t *testing.T) {
	t.Parallel()
	long := new(big.Int).Lsh(big.NewInt(1), 600_000)
	for name, v := range map[string]bridge.Value{
		"an integer": bridge.Map{{Key: "a", Value: []bridge.Value{long}}}, "a negative one": new(big.Int).Neg(long), "a key": bridge.Map{{Key: "caf\xe9", Value: nil}},
	} {
		if _, err := bridge.AppendValue(nil, v); err == nil {
			t.Errorf("%s was written", name)
		}
		if _, err := bridge.ToJSON(v); err == nil && name != "a key" {
			t.Errorf("%s was written as JSON", name)
		}
	}
	frame, err := bridge.AppendValue(nil, bridge.Map{{Key: "message", Value: "no such file: caf\xe9.txt"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := bridge.DecodeValue(frame)
	if m, _ := v.(bridge.Map); err != nil || m.Text("message") != "no such file: caf\ufffd.txt" {
		t.Errorf("got %v, %v", v, err)
	}
}

// frame is a frame whose body is list, however often it is repeated.
func frame(kind bridge.Kind, token []byte, body []byte) []byte {
	b := []byte{0, 0, 0, 0, 0x84, 0x18, byte(kind), 0x00, 0x58, byte(len(token))}
	b = append(append(b, token...), body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// lists is {"a": [[], [], …]}, of so many empty lists.
func lists(n int) []byte {
	head := binary.BigEndian.AppendUint32([]byte{0xa1, 0x61, 'a', 0x9a}, uint32(n))
	return append(head, bytes.Repeat([]byte{0x80}, n)...)
}

func TestAFrameTakesNoMoreMemoryThanItsBytesAllow(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := bridge.DecodeValue(lists(15 << 20))
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || made > 250 {
		t.Errorf("15 MiB of empty lists made %d MiB: %v", made, err)
	}
}

func TestTheBodyOfAStrangersFrameIsNotRead(t *testing.T) {
	host, guest := pair(t)
	go func() {
		w := bridge.NewWire(guest)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
		_, _, _ = w.Read()
		_, _ = guest.Write(frame(bridge.Done, []byte("0123456789abcdef"), lists(500_000)))
	}()
	c, err := bridge.Accept(t.Context(), host, bridge.Options{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(t.Context(), bridge.Program{}, nil)
	if !errors.Is(err, bridge.ErrProtocol) || !strings.Contains(err.Error(), "token of another run") {
		t.Errorf("the frame was taken: %v", err)
	}
}

// answers is a host that answers each call with value and err.
type answers struct {
	bridge.Handler
	value bridge.Value
	err   error
}

func (a answers) Call(context.Context, string, bridge.Map) (bridge.Value, error) {
	return a.value, a.err
}

func TestAnAnswerThatCannotBeSentIsAnErrorOfTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host answers
		says string
	}{
		"an integer that is too long": {answers{value: new(big.Int).Lsh(big.NewInt(1), 600_000)}, "an integer of 75001 bytes"},
		"an error that is not UTF-8":  {answers{err: toolroom.Errorf(toolroom.CodeExecutionFailed, "no such file: caf\xe9.txt")}, "caf\ufffd.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, guest := pair(t)
			told := make(chan bridge.Map, 1)
			go func() {
				w := bridge.NewWire(guest)
				_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
				start, _, _ := w.Read()
				_ = w.Write(bridge.Frame{Kind: bridge.Call, ID: 1, Token: start.Token, Body: bridge.Map{{Key: "tool", Value: "a:b"}, {Key: "arguments", Value: bridge.Map{}}}})
				f, _, _ := w.Read()
				told <- f.Body
				_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token})
			}()
			conn, err := bridge.Accept(t.Context(), host, bridge.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Run(t.Context(), bridge.Program{}, c.host); err != nil {
				t.Errorf("the run ended: %v", err)
			}
			failure, _ := (<-told).Get("error").(bridge.Map)
			if !strings.Contains(failure.Text("message"), c.says) {
				t.Errorf("the program was told %v", failure)
			}
		})
	}
}

func TestAGuestThatAsksOrPrintsInARunWithoutAHandlerIsRefused(t *testing.T) {
	t.Parallel()
	host, guest := pair(t)
	told := make(chan bridge.Map, 1)
	go func() {
		w := bridge.NewWire(guest)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
		start, _, _ := w.Read()
		for _, kind := range []bridge.Kind{bridge.Print, bridge.Progress, bridge.Log, bridge.Call} {
			_ = w.Write(bridge.Frame{Kind: kind, ID: 1, Token: start.Token, Body: bridge.Map{{Key: "tool", Value: "a:b"}, {Key: "text", Value: "x"}}})
		}
		f, _, _ := w.Read()
		told <- f.Body
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token})
	}()
	c, err := bridge.Accept(t.Context(), host, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), bridge.Program{}, nil); err != nil {
		t.Fatal(err)
	}
	refused, _ := (<-told).Get("error").(bridge.Map)
	if refused.Text("code") != string(toolroom.CodeUnsupported) {
		t.Errorf("the call was answered with %v", refused)
	}
}

// finite reports progress that JSON cannot hold.
type finite struct {
	quiet
	t *testing.T
}

func (f finite) Progress(done, total float64, _ string) {
	if math.IsNaN(done) || math.IsInf(total, 0) {
		f.t.Errorf("progress %v of %v", done, total)
	}
}

func TestProgressThatIsNoNumberIsZero(t *testing.T) {
	t.Parallel()
	host, guest := pair(t)
	go func() {
		w := bridge.NewWire(guest)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
		start, _, _ := w.Read()
		_ = w.Write(bridge.Frame{Kind: bridge.Progress, Token: start.Token, Body: bridge.Map{{Key: "done", Value: math.NaN()}, {Key: "total", Value: math.Inf(-1)}}})
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token})
	}()
	c, err := bridge.Accept(t.Context(), host, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), bridge.Program{}, finite{t: t}); err != nil {
		t.Fatal(err)
	}
}

func TestAGuestCannotClaimMoreTimeThanThereWas(t *testing.T) {
	t.Parallel()
	for claimed, possible := range map[int64]bool{-5: false, 0: true, 9_300_000_000_000: false} {
		host, guest := pair(t)
		go func() {
			w := bridge.NewWire(guest)
			_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
			start, _, _ := w.Read()
			usage := bridge.Map{{Key: "cpu", Value: claimed}, {Key: "memory", Value: claimed}}
			_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token, Body: bridge.Map{{Key: "usage", Value: usage}}})
		}()
		c, err := bridge.Accept(t.Context(), host, bridge.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Run(t.Context(), bridge.Program{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out.CPU < 0 || out.CPU > time.Hour.Milliseconds() || out.Memory < 0 || possible && out.CPU != claimed {
			t.Errorf("%d ms are claimed: %d ms, %d bytes", claimed, out.CPU, out.Memory)
		}
	}
}
