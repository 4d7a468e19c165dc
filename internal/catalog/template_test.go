package catalog

import (
	"strings"
	"testing"
	"time"
)

func FuzzATemplateIsMatchedInTime(f *testing.F) {
	f.Add("x:{a}/{b}", "x:1/2")
	for _, unit := range []string{"{a}", "{a*}", "{+a}", "{a,b,c}", "{?a*}", "{", "{a"} {
		f.Add("x:"+strings.Repeat(unit, 6), "x:"+strings.Repeat("a", 2000)+"\x00")
		f.Add("x:"+strings.Repeat(unit, 50_000), "x:"+strings.Repeat("a", 100_000)+"\x00")
	}
	f.Fuzz(func(t *testing.T, template, uri string) {
		started := time.Now()
		matchesTemplate(template, uri)
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
