package bridge

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Value is a value as programs know it. Its dynamic type is one of
//
//	nil, bool, int64, *big.Int, float64, string, []byte, time.Time,
//	[]Value, Map, Handle
//
// A *big.Int is used only for integers that int64 cannot hold.
type Value = any

// Map is an object whose members keep their order. Keys are unique.
type Map []Member

// Member is one key of a [Map] with its value.
type Member struct {
	Key   string
	Value Value
}

// Get returns the value of key, nil if there is none.
func (m Map) Get(key string) Value {
	for _, member := range m {
		if member.Key == key {
			return member.Value
		}
	}
	return nil
}

// Text returns the string at key, empty if there is none.
func (m Map) Text(key string) string {
	s, _ := m.Get(key).(string)
	return s
}

// Int returns the integer at key, 0 if there is none.
func (m Map) Int(key string) int64 {
	switch n := m.Get(key).(type) {
	case int64:
		return n
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n)
		}
	}
	return 0
}

// Handle names bytes stored outside the program: an artifact, or a result that
// was truncated.
type Handle struct {
	ID        string
	MediaType string
	Size      int64 // bytes
}

func (h Handle) members() Map {
	return Map{{"handle", h.ID}, {"media_type", h.MediaType}, {"size", h.Size}}
}

// MaxNesting bounds how deep lists and maps may nest, in frames and in JSON. It
// is well below what the recursion of any guest's codec can take.
const MaxNesting = 100

// FromJSON decodes one JSON text. An integer stays an integer whatever its size;
// a number with a fraction or an exponent becomes a float64.
func FromJSON(text json.RawMessage) (Value, error) {
	r := jsonx.NewReader(text, jsonx.Limits{Bytes: len(text) + 1, Depth: MaxNesting})
	v, err := readJSON(r)
	if err != nil {
		r.Abandon()
		return nil, err
	}
	return v, r.Finish()
}

func readJSON(r *jsonx.Reader) (Value, error) {
	switch r.Peek() {
	case jsonx.Object:
		m := Map{}
		for r.Enter(); r.More(); {
			key := string(r.Text())
			v, err := readJSON(r)
			if err != nil {
				return nil, err
			}
			m = append(m, Member{key, v})
		}
		r.Leave()
		return m, nil
	case jsonx.Array:
		list := []Value{}
		for r.Enter(); r.More(); {
			v, err := readJSON(r)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		r.Leave()
		return list, nil
	case jsonx.String:
		return string(r.Text()), nil
	case jsonx.Number:
		return number(string(r.Number()))
	case jsonx.True:
		r.Skip()
		return true, nil
	case jsonx.False:
		r.Skip()
		return false, nil
	default:
		r.Skip() // null, or an error that Finish returns
		return nil, nil
	}
}

func number(text string) (Value, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, ok := parseBig(text); ok {
			return n, checkBig(n)
		}
		return nil, fmt.Errorf("integer %.40s… has %d digits; at most %d are allowed", text, len(text), maxDigits)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.40s does not fit a 64-bit float", text)
	}
	return f, nil
}

// maxDigits bounds the digits of an integer; one of maxBigBytes has as many.
const maxDigits = 157_827

// parseBig reads an integer in less than quadratic time; false if it is too long.
func parseBig(text string) (*big.Int, bool) {
	digits := strings.TrimPrefix(text, "-")
	if len(digits) > maxDigits {
		return nil, false
	}
	n := parseDigits(digits)
	if len(digits) < len(text) {
		n.Neg(n)
	}
	return n, true
}

func parseDigits(text string) *big.Int {
	const few = 2000
	if len(text) <= few {
		n, _ := new(big.Int).SetString(text, 10) // a number of JSON
		return n
	}
	low := len(text) / 2
	n := parseDigits(text[:len(text)-low])
	n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(low)), nil))
	return n.Add(n, parseDigits(text[len(text)-low:]))
}

// checkBig refuses an integer that no reader of the bridge takes.
func checkBig(n *big.Int) error {
	magnitude := n
	if n.Sign() < 0 {
		magnitude = new(big.Int).Not(n) // what is sent
	}
	if size := (magnitude.BitLen() + 7) / 8; size > maxBigBytes {
		return fmt.Errorf("an integer of %d bytes, the limit is %d", size, maxBigBytes)
	}
	return nil
}

// ToJSON encodes a value as JSON: bytes as base64 (RFC 4648), times as RFC 3339,
// a handle as an object with handle, media_type and size. If JSON cannot hold a
// part (NaN, infinities, a type that is not a [Value]), the error names the part.
func ToJSON(v Value) (json.RawMessage, error) {
	b, err := appendJSON(nil, v, 0)
	var bad *partError
	if errors.As(err, &bad) {
		err = fmt.Errorf("%.200s %w", "value"+bad.path, bad.problem)
	}
	return b, err
}

// partError says what is wrong with a part of a value. The path to the part is put together only
// once something is wrong: keys may be long, and a guest may send millions of parts.
type partError struct {
	path    string
	problem error
}

func (e *partError) Error() string { return e.path + " " + e.problem.Error() }

func badPart(format string, args ...any) error {
	return &partError{problem: fmt.Errorf(format, args...)}
}

// within adds the step that leads to a part to its error. Only the beginning of a path is shown,
// so no more of it is kept: a path of many long keys takes quadratic time to join.
func within(step string, err error) error {
	const kept = 800 // bytes, at least the 200 characters that are shown
	var bad *partError
	if errors.As(err, &bad) {
		bad.path = step[:min(len(step), kept)] + bad.path[:min(len(bad.path), kept)]
	}
	return err
}

func appendJSON(b []byte, v Value, depth int) ([]byte, error) {
	if depth > MaxNesting {
		return nil, badPart("nests deeper than %d", MaxNesting)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case *big.Int:
		if err := checkBig(v); err != nil {
			return nil, badPart("is %w", err)
		}
		return v.Append(b, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, badPart("is %v, which JSON cannot hold", v)
		}
		if v == math.Trunc(v) && math.Abs(v) < 1e21 {
			return strconv.AppendFloat(b, v, 'f', 1, 64), nil // stays a float when read again
		}
		return strconv.AppendFloat(b, v, 'g', -1, 64), nil
	case string:
		return appendString(b, v)
	case []byte:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, v)
		return append(b, '"'), nil
	case time.Time:
		b = append(b, '"')
		b = v.AppendFormat(b, time.RFC3339Nano)
		return append(b, '"'), nil
	case Handle:
		return appendJSON(b, v.members(), depth)
	case []Value:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSON(b, item, depth+1); err != nil {
				return nil, within("["+strconv.Itoa(i)+"]", err)
			}
		}
		return append(b, ']'), nil
	case Map:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendString(b, m.Key); err != nil {
				return nil, err
			}
			b = append(b, ':')
			if b, err = appendJSON(b, m.Value, depth+1); err != nil {
				return nil, within("."+m.Key, err)
			}
		}
		return append(b, '}'), nil
	}
	return nil, badPart("is a %T, which is not a value of a program", v)
}

func appendString(b []byte, s string) ([]byte, error) {
	if plainASCII(s) { // nearly all text, and worth it: the tools of each run are encoded here
		return append(append(append(b, '"'), s...), '"'), nil
	}
	text, err := jsonx.Marshal(s)
	return append(b, text...), err
}

// plainASCII reports whether s needs no escaping in JSON.
func plainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
