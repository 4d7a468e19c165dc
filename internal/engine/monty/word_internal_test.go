package monty

import (
	"math"
	"math/big"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

func TestWordsOfACommandLineAreAsPythonWritesThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value bridge.Value
		want  string
	}{
		{true, "True"},
		{false, "False"},
		{"a b", "a b"},
		{int64(-7), "-7"},
		{new(big.Int).Lsh(big.NewInt(1), 70), "1180591620717411303424"},
		{1000000.0, "1000000.0"},
		{0.5, "0.5"},
		{0.0001, "0.0001"},
		{0.00001, "1e-05"},
		{1e15, "1000000000000000.0"},
		{1e16, "1e+16"},
		{math.Copysign(0, -1), "-0.0"},
	} {
		if got, ok := commandWord(c.value); !ok || got != c.want {
			t.Errorf("%v is %q, %v, want %q", c.value, got, ok, c.want)
		}
	}
	for _, value := range []bridge.Value{nil, []byte{1, 2}, bridge.Map{}, []bridge.Value{"a"}} {
		if got, ok := commandWord(value); ok {
			t.Errorf("%v is the word %q", value, got)
		}
	}
}
