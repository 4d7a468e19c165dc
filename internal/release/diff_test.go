package release

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheDifferenceOfLongVersionsTakesTimeInProportion(t *testing.T) {
	t.Parallel()
	version := func(number int, form string) *Version {
		var text strings.Builder
		for i := range 200_000 {
			fmt.Fprintf(&text, form, i)
		}
		return &Version{Tool: "fn:long", Number: number, Spec: Spec{File: "long.py", Files: map[string]string{"long.py": text.String()}}}
	}
	began := time.Now()
	d := Diff(version(1, "before %d\n"), version(2, "after %d\n"))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, want := range []string{"-before 0\n", "+after 0\n", "-before 199999\n", "+after 199999\n"} {
		if !strings.Contains(d, want) {
			t.Errorf("the difference lacks %q", want)
		}
	}
}
