package quickjs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

func save(t *testing.T, m *Machine, program string) []byte {
	t.Helper()
	i := isolate(t, m)
	defer i.Release()
	if _, end, err := eval(t, i, program); end != Finished || err != nil {
		t.Fatalf("end %d, %v", end, err)
	}
	state, err := i.Save(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// again makes the next frame a program, as in a new run of a session.
const again = `; status[2] = 0; "saved"`

func TestAStateIsLoadedByAnyMachineOfTheSameImage(t *testing.T) {
	t.Parallel()
	one, other := open(t), open(t)
	if !bytes.Equal(one.Image().Bytes(), other.Image().Bytes()) {
		t.Fatal("two machines of one build have different images")
	}
	for name, program := range map[string]string{
		"small": `globalThis.kept = {n: 41, f() { return this.n + 1; }}`,
		"many":  `globalThis.big = Array.from({length: 400_000}, (_, n) => ({n})); globalThis.kept = {f: () => big[40].n + 2}`,
		"grown": `globalThis.big = new Uint8Array(20 << 20); big[20_000_000] = 40; globalThis.kept = {f: () => big[20_000_000] + 2}`,
	} {
		state := save(t, one, program+again)
		t.Logf("%s: %d bytes", name, len(state))
		i := isolate(t, other)
		if err := i.Load(state); err != nil {
			t.Fatal(err)
		}
		if got, end, err := eval(t, i, `kept.f()`); got != "42" || end != Finished || err != nil {
			t.Errorf("%s: got %q, end %d, %v", name, got, end, err)
		}
		i.Release()
		clean := isolate(t, other)
		if got, _, err := eval(t, clean, `typeof kept`); got != "undefined" || err != nil {
			t.Errorf("%s: the next isolate sees %s, %v", name, got, err)
		}
		clean.Release()
	}
}

func TestAnInvalidStateIsRefused(t *testing.T) {
	t.Parallel()
	m := open(t)
	pack, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const blockSize = 4 + 4096 // a number, and a page
	block := make([]byte, blockSize)
	noise := rand.New(rand.NewPCG(1, 2))
	for name, state := range map[string][]byte{
		"nothing":              {},
		"not packed":           []byte("hello"),
		"cut":                  save(t, m, `"x"`)[:100],
		"empty":                pack.EncodeAll(nil, nil),
		"a part of a block":    pack.EncodeAll([]byte{200, 0, 0, 0, 1}, nil),
		"no memory":            pack.EncodeAll([]byte{0, 0, 0, 0}, nil),
		"all memory":           pack.EncodeAll([]byte{255, 255, 255, 255}, nil),
		"a block outside":      pack.EncodeAll(append([]byte{200, 0, 0, 0, 255, 255, 255, 255}, block[4:]...), nil),
		"a bomb":               pack.EncodeAll(make([]byte, 2*wasm.MaxDelta), nil),
		"an offset that wraps": pack.EncodeAll(append([]byte{200, 0, 0, 0, 0, 0, 16, 0}, block[4:]...), nil),
	} {
		i := isolate(t, m)
		if err := i.Load(state); !errors.Is(err, wasm.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		i.Release()
	}
	// Noise in the engine's own data ends only the run.
	i := isolate(t, m)
	raw := []byte{200, 0, 0, 0}
	for at := uint32(256); at < 700; at++ { // the stack is below
		raw = binary.LittleEndian.AppendUint32(raw, at)
		for range blockSize - 4 {
			raw = append(raw, byte(noise.Uint32()))
		}
	}
	if err := i.Load(pack.EncodeAll(raw, nil)); err != nil {
		t.Fatal(err)
	}
	if got, end, err := eval(t, i, `1 + 1`); end == Finished {
		t.Errorf("got %q, %v", got, err)
	}
	i.Release()
	clean := isolate(t, m)
	defer clean.Release()
	if got, _, err := eval(t, clean, `1 + 1`); got != "2" || err != nil {
		t.Errorf("the next isolate returns %q, %v", got, err)
	}
}

func TestAStateThatIsTooLargeIsNotSaved(t *testing.T) {
	t.Parallel()
	m := open(t)
	i := isolate(t, m)
	defer i.Release()
	if _, end, err := evalWithin(t, i, Port{Memory: 200 << 20}, `globalThis.big = new Uint8Array(70 << 20).fill(7); "done"`); end != Finished || err != nil {
		t.Fatal(end, err)
	}
	var large wasm.TooLargeError
	if _, err := i.Save(t.Context()); !errors.As(err, &large) {
		t.Errorf("%v", err)
	}
}
