package schema

import (
	"fmt"
	"sync"
	"testing"
)

func TestTheCacheCompilesEachTextOnce(t *testing.T) {
	t.Parallel()
	c := NewCache(0, Limits{})
	compiled := make([]*Schema, 16)
	var wg sync.WaitGroup
	for i := range compiled {
		wg.Go(func() {
			s, err := c.Compile([]byte(issueSchema))
			if err != nil {
				t.Error(err)
			}
			compiled[i] = s
		})
	}
	wg.Wait()
	for _, s := range compiled {
		if s == nil || s != compiled[0] {
			t.Fatal("the same text gave different schemas")
		}
	}
}

func TestTheCacheLetsGoOfWhatWasNotAskedForLongest(t *testing.T) {
	t.Parallel()
	c := NewCache(2, Limits{})
	get := func(i int) *Schema {
		s, err := c.Compile(fmt.Appendf(nil, `{"maxLength": %d}`, i))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second := get(1), get(2)
	get(1)
	get(3) // there is no room for 2 any more
	if get(1) != first {
		t.Error("1 was compiled again, although it had been asked for last")
	}
	if get(2) == second {
		t.Error("2 is still there")
	}
	if n := c.recent.Len(); n != 2 || len(c.entries) != 2 {
		t.Errorf("%d schemas and %d keys are held, want 2", n, len(c.entries))
	}
}

func TestTheCacheRemembersRefusals(t *testing.T) {
	t.Parallel()
	c := NewCache(1, Limits{Subschemas: 1})
	_, first := c.Compile([]byte(issueSchema))
	_, second := c.Compile([]byte(issueSchema))
	wantKind(t, first, TooLarge)
	if first != second {
		t.Error("the text was compiled again")
	}
}
