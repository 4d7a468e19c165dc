package code

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// counted counts how often it is asked.
type counted struct {
	run.Releases
	times int
}

func (c *counted) Snapshot() run.ReleaseSnapshot {
	c.times++
	return nil
}

func TestNotEveryNameInAVeryLongProgramIsLookedUp(t *testing.T) {
	t.Parallel()
	all := catalog.New(catalog.Options{})
	for names, most := range map[int]int{10: 10, 5_000: maxLookups} {
		asked := &counted{}
		h := &handler{Service: &Service{o: Options{Catalog: all, Runner: run.New(run.Options{Catalog: all, Releases: asked})}}, request: &source.Request{}}
		var text strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&text, "run(\"a:b%d@1\")\n", i%names) // which version there is, the call says
		}
		if found := h.findUnknown(text.String(), nil); len(found) > 0 {
			t.Errorf("%d names: %v", names, found)
		}
		if asked.times == 0 || asked.times > 2*most {
			t.Errorf("%d names were looked up %d times", names, asked.times)
		}
	}
}
