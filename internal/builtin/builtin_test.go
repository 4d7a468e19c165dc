package builtin

import (
	"encoding/json"
	"testing"
)

// Models write whole numbers with a fraction, and JSON Schema takes them for integers.
func TestWholeNumbersAreIntegers(t *testing.T) {
	t.Parallel()
	type args struct {
		Offset int     `json:"offset"`
		Lines  []int64 `json:"lines"`
		Weight float64 `json:"weight"`
		Text   string  `json:"text"`
	}
	for raw, want := range map[string]string{
		`{"offset":2.0,"lines":[1e3,4],"weight":1.5,"text":"2.0"}`: `{"offset":2,"lines":[1000,4],"weight":1.5,"text":"2.0"}`,
		`{"offset":-3,"lines":[9007199254740993],"weight":2.0}`:    `{"offset":-3,"lines":[9007199254740993],"weight":2,"text":""}`,
		`{"offset":2.0,"lines":[9007199254740993]}`:                `{"offset":2,"lines":[9007199254740993],"weight":0,"text":""}`,
		`{"offset":2.5}`:   "",
		`{"offset":1e300}`: "",
	} {
		in, err := decode[args](json.RawMessage(raw))
		got, _ := json.Marshal(in)
		if (err == nil) != (want != "") || err == nil && string(got) != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
}
