//go:build race

package module_test

// raced reports whether the race detector is on, with which a module made by Go
// takes a minute to compile.
const raced = true
