//go:build !linux

package sandboxtest

func machineLacks() string { return "does not run Linux" }
