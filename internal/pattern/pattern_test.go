package pattern_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/pattern"
)

func TestAnExpressionIsCompiledOnceAndNotBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	broken := pattern.Lazy("(")
	words := pattern.Lazy(`\w+`)
	if words() != words() || words().FindString("- word") != "word" {
		t.Errorf("got %q of %v", words().FindString("- word"), words())
	}
	defer func() {
		if recover() == nil {
			t.Error("an expression that is none was compiled")
		}
	}()
	broken()
}
