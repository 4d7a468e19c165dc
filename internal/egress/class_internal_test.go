package egress

import (
	"slices"
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
