package py

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/bridge"
)

func frame(t *testing.T, body bridge.Map) []byte {
	t.Helper()
	list := []bridge.Value{int64(bridge.Call), int64(7), body}
	data, err := appendMarshals(appendSize([]byte{tupleByte}, len(list)), list)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestMarshalledValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	large, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	body := bridge.Map{
		{Key: "nothing", Value: nil},
		{Key: "truth", Value: []bridge.Value{true, false}},
		{Key: "text ä", Value: "ö\x00"},
		{Key: "bytes", Value: []byte{0, 255}},
		{Key: "large", Value: large},
		{Key: "larger", Value: new(big.Int).Lsh(big.NewInt(1), 64)},
		{Key: "float", Value: -0.5},
		{Key: "map", Value: bridge.Map{}},
		{Key: "list", Value: []bridge.Value{}},
	}
	for _, n := range []int64{0, 1, -1, 1 << 15, -1 << 31, 1 << 31, math.MaxInt64, math.MinInt64} {
		body = append(body, bridge.Member{Key: big.NewInt(n).String(), Value: n})
	}
	got, err := readMarshalled(frame(t, body))
	want := bridge.Frame{Kind: bridge.Call, ID: 7, Body: body}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestMarshalledValuesThatTheBridgeLacksAreRefused(t *testing.T) {
	t.Parallel()
	const head = "(\x03\x00\x00\x00i\x0a\x00\x00\x00i\x01\x00\x00\x00"
	for name, data := range map[string]string{
		"a set":                         head + "{u\x01\x00\x00\x00a<\x00\x00\x00\x000",
		"code":                          head + "{u\x01\x00\x00\x00ac0",
		"no number":                     head + "{u\x01\x00\x00\x00ag\x00\x00\x00\x00\x00\x00\xf8\x7f0",
		"half a surrogate pair":         head + "{u\x01\x00\x00\x00au\x03\x00\x00\x00\xed\xa0\x800",
		"a key that is a number":        head + "{i\x01\x00\x00\x00N0",
		"more items than there are":     head + "{u\x01\x00\x00\x00a[\xff\xff\xff\x7f",
		"a negative length":             head + "{u\x01\x00\x00\x00as\xff\xff\xff\xff",
		"a larger integer than crosses": head + "{u\x01\x00\x00\x00al\xff\xff\xff\x7f",
		"the smallest of all sizes":     head + "{u\x01\x00\x00\x00al\x00\x00\x00\x80",
		"a map without an end":          head + "{",
		"bytes after the frame":         head + "{0N",
		"a body that is no map":         head + "N",
		"an id below zero":              strings.Replace(head, "i\x01\x00\x00\x00", "i\xff\xff\xff\xff", 1) + "{0",
		"too deep":                      head + "{u\x01\x00\x00\x00a" + strings.Repeat("[\x01\x00\x00\x00", 200) + "N0",
		"nothing":                       "",
	} {
		if f, err := readMarshalled([]byte(data)); err == nil {
			t.Errorf("%s: got %v", name, f)
		}
	}
}

func FuzzMarshalledFramesAreReadOrRefused(f *testing.F) {
	f.Add([]byte("(\x03\x00\x00\x00i\x0a\x00\x00\x00i\x01\x00\x00\x00{u\x01\x00\x00\x00al\x02\x00\x00\x00\x01\x00\x01\x000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := readMarshalled(data)
		if err != nil {
			return
		}
		if again, err := readMarshalled(frame(t, read.Body)); err != nil || len(again.Body) != len(read.Body) {
			t.Errorf("%v: %v, then %v", err, read.Body, again.Body)
		}
	})
}
