package wasm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// Workers take rewritten modules from a folder that older builds have filled.
func TestTheVersionChangesWithWhatMeterMakes(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../quickjs/quickjs.wasm")
	if err != nil {
		t.Fatal(err)
	}
	rewritten, err := wasm.Meter(module)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(rewritten)
	got := wasm.MeterVersion + " " + hex.EncodeToString(sum[:8])
	if want := "1 c3020582675af4f9"; got != want {
		t.Errorf("version and sum are %q, want %q: where the module is the same as before, Version has to be another", got, want)
	}
}
