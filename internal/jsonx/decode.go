package jsonx

import "encoding/json"

// Decode reads data into a native tree of map[string]any, []any, string, bool,
// nil and [json.Number]. Numbers keep their exact text, so integers beyond 2^53
// survive. It returns a [*SyntaxError] for anything but one document of valid
// UTF-8 within limits and without duplicate keys. The tree shares no memory
// with data.
func Decode(data []byte, limits Limits) (any, error) {
	r := NewReader(data, limits)
	tree := r.tree()
	if err := r.Finish(); err != nil {
		return nil, err
	}
	return tree, nil
}

// Check refuses exactly what [Decode] refuses, and builds nothing.
func Check(data []byte, limits Limits) error {
	r := NewReader(data, limits)
	r.Skip()
	return r.Finish()
}

// tree recurses no deeper than the depth limit of r.
func (r *Reader) tree() any {
	switch r.Peek() {
	case Object:
		object := map[string]any{}
		for r.Enter(); r.More(); {
			name := string(r.Text())
			object[name] = r.tree()
		}
		r.Leave()
		return object
	case Array:
		array := []any{}
		for r.Enter(); r.More(); {
			array = append(array, r.tree())
		}
		r.Leave()
		return array
	case String:
		return string(r.Text())
	case Number:
		return json.Number(r.Number())
	case True:
		r.token()
		return true
	case False:
		r.token()
		return false
	default: // null, or an error that Finish reports
		r.token()
		return nil
	}
}
