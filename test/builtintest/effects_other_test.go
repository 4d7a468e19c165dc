//go:build !linux

package builtintest

const watchedBase = "TOOLROOM_BUILTINTEST_BASE"

func runWatched(string) int { return 1 }
