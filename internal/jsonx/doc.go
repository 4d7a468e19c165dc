// Package jsonx reads and writes all JSON text of Toolroom.
//
// [Decode] converts a document to a native tree, [Check] only reports whether it
// is acceptable, and [Reader] walks it value by value without building a tree.
// All three apply the same strict rules: UTF-8 only, no duplicate keys, nothing
// after the document, bounded size and depth. [Canonical] returns the only
// form that is hashed, and [Marshal] encodes for people and programs. [ParsePath]
// reads a JSONPath, which selects parts of a text without decoding it.
//
// The grammar comes from github.com/go-json-experiment/json/jsontext, whose API
// is that of encoding/json/jsontext in Go 1.27. No other package imports it.
package jsonx
