// Package surface tests that every handler of every surface applies the same policy:
// the same call gets the same decision and the same receipt, whichever handler makes
// it. A new handler needs a row in handlers_test.go.
package surface
