package jsonx

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembersKeepTheirOrderAndText(t *testing.T) {
	t.Parallel()
	got, err := Members([]byte("{ \"z\\u0061\": 1.0e0 ,\"a\":{\"y\" : 9007199254740993},\"a\":\"\\u003c\xff\",\"\":[ ] } "))
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, m := range got {
		text = append(text, m.Name+"="+string(m.Value))
	}
	want := []string{"za=1.0e0", `a={"y" : 9007199254740993}`, "a=\"\\u003c\xff\"", "=[ ]"}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestWhatHasNoMembersIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[]", "1", `{"a"`, `{"a":}`, `{"a":1`, "{a:1}"} {
		if got, err := Members([]byte(text)); err == nil {
			t.Errorf("%q has the members %v", text, got)
		}
	}
}

func FuzzMembersOfAnObjectAreItsText(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		members, err := Members(data)
		if err != nil {
			return
		}
		for _, m := range members {
			if len(m.Value) == 0 {
				t.Errorf("%q has an empty value in %q", m.Name, data)
			}
		}
	})
}
