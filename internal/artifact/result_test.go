package artifact

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestResultsOfManyCallsAtOnceAreKeptInAFullStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Results: Limits{Entries: 20}})
	for i := range 20 {
		f.put(t, "ann", Result, strconv.Itoa(i))
	}
	f.advance(2 * time.Minute)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := f.store.PutResult(t.Context(), "ann", "result", "text/plain", []byte("new "+strconv.Itoa(i)), false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(f.files(t)); n != 20 {
		t.Errorf("%d are kept", n)
	}
}
