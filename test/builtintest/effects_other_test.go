//go:build !linux

package builtintest

const watchedBase = "TOOLROOM_BUILTINTEST_BASE"

func watched(string) int { return 1 }
