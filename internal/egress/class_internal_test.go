package egress

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestANameCoversOrdinaryAddressesOnly(t *testing.T) {
	t.Parallel()
	ordinary := []Class{Public, Loopback, Private, Shared}
	for _, c := range classes {
		if got := coveredByName(c); got != slices.Contains(ordinary, c) {
			t.Errorf("%s: %v", c, got)
		}
	}
}

func TestWhatAResponseHadBeforeACancelIsRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &body{io.NopCloser(strings.NewReader("part")), ctx}
	text := make([]byte, 8)
	if n, err := b.Read(text); n != 4 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := b.Read(text); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
}
