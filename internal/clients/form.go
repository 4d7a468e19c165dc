package clients

import (
	"fmt"
	"maps"
	"reflect"
)

// form edits one file format. Edits change only the entry that they name, and preserve comments,
// order and white space.
type form interface {
	// servers returns the names of the servers in text, in its order.
	servers(text []byte) ([]string, error)
	// add adds a server, which must not exist.
	add(text []byte, name string, value any) ([]byte, error)
	// remove removes a server, and returns its text.
	remove(text []byte, name string) (out, was []byte, err error)
	// put adds a server with the text that remove returned.
	put(text []byte, name string, was []byte) ([]byte, error)
	// decode returns the servers, and all else, as Go values.
	decode(text []byte) (servers, rest map[string]any, err error)
}

// edit runs change on text. It returns an error if more than the server name has changed, because
// the file then has a form that is not supported.
func edit(f form, text []byte, name string, change func() ([]byte, error)) ([]byte, error) {
	servers, rest, err := f.decode(text)
	if err != nil {
		return nil, err
	}
	out, err := change()
	if err != nil {
		return nil, err
	}
	servers2, rest2, err := f.decode(out)
	if err != nil {
		return nil, fmt.Errorf("the edit would make the file invalid: %w", err)
	}
	delete(servers, name)
	delete(servers2, name)
	if !sameServers(servers, servers2) || !sameServers(rest, rest2) {
		return nil, fmt.Errorf("the server %q cannot be edited without changing other entries", name)
	}
	return out, nil
}

// sameServers reports whether two maps are equal. Nil and empty maps are equal.
func sameServers(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// nested returns the map at path, and a copy of root without it. Maps that are empty then
// are left out.
func nested(root map[string]any, path []string) (at, rest map[string]any, err error) {
	rest = make(map[string]any, len(root))
	maps.Copy(rest, root)
	value, ok := root[path[0]]
	if !ok || value == nil {
		delete(rest, path[0])
		return map[string]any{}, rest, nil
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return nil, nil, fmt.Errorf("%s is not a table of servers", path[0])
	}
	if len(path) == 1 {
		delete(rest, path[0])
		at = make(map[string]any, len(inner))
		maps.Copy(at, inner)
		return at, rest, nil
	}
	at, rest[path[0]], err = nestedIn(inner, path[1:])
	if left, _ := rest[path[0]].(map[string]any); len(left) == 0 {
		delete(rest, path[0])
	}
	return at, rest, err
}

func nestedIn(inner map[string]any, path []string) (map[string]any, any, error) {
	at, rest, err := nested(inner, path)
	return at, rest, err
}
