package sourcetest_test

import "testing"

func TestTheSourceOfTheExamplePassesTheSuite(t *testing.T) {
	t.Parallel()
	testLamp(t)
}
