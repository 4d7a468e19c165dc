// Package extend has a source, a sandbox driver and an engine of about twenty
// lines each, as the pages of docs/extend show them.
package extend
