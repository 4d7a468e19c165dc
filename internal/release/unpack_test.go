package release

import (
	"bytes"
	"strings"
	"testing"
)

func TestAModuleThatIsTooLargeIsNotCut(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("x"), 1000)
	text, err := PackFile("m.wasm", content)
	if err != nil {
		t.Fatal(err)
	}
	for limit, fits := range map[int64]bool{1000: true, 999: false} {
		got, err := unpackFile("m.wasm", text, limit)
		if fits != (err == nil && bytes.Equal(got, content)) || !fits && (err == nil || !strings.Contains(err.Error(), "m.wasm")) {
			t.Errorf("limit %d: %d bytes, %v", limit, len(got), err)
		}
	}
}
