package run

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
)

func TestOnlyAnObjectOrAListIsTheValueThatATextSpells(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` {"a": 1}` + "\n": `{"a": 1}`, "[1]": "[1]",
		"": `""`, "007": `"007"`, "true": `"true"`, "[1": `"[1"`, `"x"`: `"\"x\""`, "  ": `"  "`,
	} {
		if got := textValue(text); string(got) != want {
			t.Errorf("%q: %s, not %s", text, got, want)
		}
	}
}

func TestTheExpressionsOfAChainAreLimitedInNumberAndLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxExpressionText)
	many := map[string]string{}
	for i := range maxExpressions {
		many[fmt.Sprint(i)] = "1"
	}
	for name, tt := range map[string]struct {
		steps []toolroom.Step
		good  bool
	}{
		"the longest condition":      {[]toolroom.Step{{If: long}}, true},
		"a condition that is longer": {[]toolroom.Step{{If: long}, {If: "x"}}, false},
		"the longest mapping":        {[]toolroom.Step{{Map: map[string]string{"a": long}}}, true},
		"a mapping that is longer":   {[]toolroom.Step{{Map: map[string]string{"a": long, "b": "x"}}}, false},
		"the most mappings":          {[]toolroom.Step{{Map: many}}, true},
		"one more":                   {[]toolroom.Step{{Map: many}, {Map: map[string]string{"a": "1"}}}, false},
	} {
		if err := checkExpressions(tt.steps); (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRateLimitersAreForgottenOnceTheyWouldBeFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuckets(RateLimits{PerSecond: 1, Burst: 10})
		busy := bucketKey{owner: "busy"}
		began := time.Now()
		taken := 0
		for i := range 100_000 {
			b.get(bucketKey{owner: fmt.Sprint(i)}).Reserve() // not full afterwards
			if i%100 == 0 {
				if b.get(busy).Allow() {
					taken++
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		if kept := len(b.recent) + len(b.past); kept > 21_000 {
			t.Errorf("%d limiters are kept", kept)
		}
		// Neither a new bucket nor a lost one changes the rate.
		if most := 10 + int(time.Since(began)/time.Second); taken < most-1 || taken > most {
			t.Errorf("%d calls were let through, not %d", taken, most)
		}
	})
}
