package cli

import (
	"strings"
	"testing"
)

func TestAPatternIsNoToolOfCalls(t *testing.T) {
	t.Parallel()
	for tool, refused := range map[string]bool{"shop:*": true, "shop:list?tems": true, "shop:listItems": false, "shop:listItems@2": false, "": false} {
		f := callFilter{tool: tool}
		if _, err := f.query(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "is a pattern") {
			t.Errorf("%q: %v", tool, err)
		}
	}
}
