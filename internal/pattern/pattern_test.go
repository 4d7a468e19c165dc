package pattern_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/pattern"
)

func TestAnExpressionIsCompiledOnceAndNotBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	broken := pattern.Lazy("(")
	words := pattern.Lazy(`\w+`)
	first, again := words(), words()
	if first != again || first.FindString("- word") != "word" {
		t.Errorf("got %q of %p, then %p", first.FindString("- word"), first, again)
	}
	defer func() {
		if recover() == nil {
			t.Error("an expression that is none was compiled")
		}
	}()
	broken()
}
