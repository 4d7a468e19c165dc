package jsonx

import "testing"

var smallCall = []byte(`{"title":"Crash on start","labels":["bug","p1"],"priority":3,"draft":false,"ratio":0.5,"body":"It \"fails\" at once.","assignee":null}`)

func BenchmarkDecode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(smallCall, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(smallCall, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical(smallCall); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshal(b *testing.B) {
	tree, err := Decode(smallCall, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Marshal(tree); err != nil {
			b.Fatal(err)
		}
	}
}
