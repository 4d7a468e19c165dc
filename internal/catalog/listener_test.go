package catalog_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/catalog"
)

func TestAListenerThatPanicsKeepsNothingFromTheOthers(t *testing.T) {
	t.Parallel()
	var list catalog.Listeners[int]
	told := 0
	for range 3 {
		list.Add(func(int) { panic("boom") })
		list.Add(func(n int) { told += n })
	}
	if list.Notify(1); told != 3 {
		t.Errorf("%d of 3 were told", told)
	}
}

func TestWhoHasCancelledIsToldNoMore(t *testing.T) {
	t.Parallel()
	var list catalog.Listeners[int]
	if !list.Empty() {
		t.Error("the zero List is not empty")
	}
	var first, second int
	cancel := list.Add(func(n int) { first += n })
	list.Add(func(n int) { second += n })
	list.Notify(1)
	cancel()
	cancel()
	list.Notify(10)
	if first != 1 || second != 11 || list.Empty() {
		t.Errorf("the first was told %d, the second %d", first, second)
	}
}

func TestAFunctionMayCancelItselfWhileItIsTold(t *testing.T) {
	t.Parallel()
	var list catalog.Listeners[string]
	told := 0
	var cancel func()
	cancel = list.Add(func(string) { told++; cancel() })
	list.Notify("once")
	list.Notify("twice")
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
}
