// Package jsonx is the one place where Toolroom reads and writes JSON text.
//
// [Decode] turns a document into a native tree, [Check] only tells whether it
// is acceptable, and [Reader] walks it value by value without building a tree.
// All three apply the same strict rules: UTF-8 only, no duplicate keys, nothing
// after the document, bounded size and depth. [Canonical] gives the one byte
// form that hashes are taken of, [Marshal] encodes for people and programs.
//
// The grammar comes from github.com/go-json-experiment/json/jsontext, whose API
// is that of encoding/json/jsontext in Go 1.27; nothing else imports it.
package jsonx
