package wasm_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// pair is a memory with its content, put to an image of pages with a pattern.
func adopted(t *testing.T, pagemap *wasm.Pagemap) (*wasm.Memory, []byte, *wasm.Image) {
	t.Helper()
	first, err := wasm.NewMemory(64*wasm.PageSize, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Free()
	content := first.Reallocate(20 * wasm.PageSize)
	for i := range 10 * wasm.PageSize { // the second half stays zero
		content[i] = byte(i / 7)
	}
	image, err := first.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = image.Close() })
	m, err := wasm.NewMemory(64*wasm.PageSize, pagemap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	content = m.Reallocate(20 * wasm.PageSize)
	copy(content, "what an instance writes when it starts")
	if err := m.Adopt(image); err != nil {
		t.Fatal(err)
	}
	return m, content, image
}

func TestAResetLeavesNoByteOfWhatWasWritten(t *testing.T) {
	t.Parallel()
	pagemap, err := wasm.OpenPagemap()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]*wasm.Pagemap{"with a page map": pagemap, "without one": nil} {
		t.Run(name, func(t *testing.T) {
			m, content, image := adopted(t, p)
			random := rand.New(rand.NewPCG(1, 2))
			for round := range 200 {
				for range random.IntN(40) {
					content[random.IntN(len(content))]++
				}
				if _, err := m.Reset(); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(content, image.Bytes()) {
					t.Fatalf("round %d: the memory differs from its image", round)
				}
			}
		})
	}
}

func TestMemoriesOfOneImageDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	_, one, image := adopted(t, nil)
	other, err := wasm.NewMemory(64*wasm.PageSize, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Free)
	two := other.Reallocate(20 * wasm.PageSize)
	if err := other.Adopt(image); err != nil {
		t.Fatal(err)
	}
	one[5]++
	if two[5] == one[5] || image.Bytes()[5] == one[5] {
		t.Error("a write is seen outside the memory it was made to")
	}
}

func TestAMemoryThatGrewCannotBeReset(t *testing.T) {
	t.Parallel()
	m, _, _ := adopted(t, nil)
	if m.Reallocate(21*wasm.PageSize) == nil {
		t.Fatal("it did not grow")
	}
	if _, err := m.Reset(); !errors.Is(err, wasm.ErrGrown) {
		t.Errorf("reset after growth: %v", err)
	}
	if m.Reallocate(65*wasm.PageSize) != nil {
		t.Error("it grew past its limit")
	}
}
