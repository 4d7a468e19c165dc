package py

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
)

// Between worker and guest, values travel in CPython's marshal format, version 2
// (Python/marshal.c), if it can hold them. The interpreter reads and writes that
// format in C, and CBOR in Python, which takes about ten times as long.

// errNotMarshal means that marshal cannot represent a value, which has to be sent as CBOR. If that
// cannot represent it either, the guest's own codec says which part.
var errNotMarshal = errors.New("marshal does not hold it")

// tupleByte is the first byte of a marshalled frame, which no frame of the bridge begins with.
const tupleByte = '('

// appendMarshal appends a value that marshal.loads returns unchanged.
func appendMarshal(b []byte, v bridge.Value) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, 'N'), nil
	case bool:
		if v {
			return append(b, 'T'), nil
		}
		return append(b, 'F'), nil
	case int64:
		if v == int64(int32(v)) {
			return appendSize(append(b, 'i'), int(v)), nil
		}
		return appendDigits(b, big.NewInt(v)), nil
	case *big.Int:
		return appendDigits(b, v), nil
	case float64:
		return binary.LittleEndian.AppendUint64(append(b, 'g'), math.Float64bits(v)), nil
	case string:
		return append(appendSize(append(b, 'u'), len(v)), v...), nil
	case []byte:
		return append(appendSize(append(b, 's'), len(v)), v...), nil
	case []bridge.Value:
		return appendMarshals(appendSize(append(b, '['), len(v)), v)
	case bridge.Map:
		b = append(b, '{')
		for _, m := range v {
			b = append(appendSize(append(b, 't'), len(m.Key)), m.Key...)
			var err error
			if b, err = appendMarshal(b, m.Value); err != nil {
				return nil, err
			}
		}
		return append(b, '0'), nil
	}
	return nil, errNotMarshal
}

func appendMarshals(b []byte, list []bridge.Value) (_ []byte, err error) {
	for _, item := range list {
		if b, err = appendMarshal(b, item); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func appendSize(b []byte, n int) []byte { return binary.LittleEndian.AppendUint32(b, uint32(n)) }

// digitBits is the number of bits in one digit of an integer.
const digitBits = 15

func appendDigits(b []byte, n *big.Int) []byte {
	size := (n.BitLen() + digitBits - 1) / digitBits
	if n.Sign() < 0 {
		b = appendSize(append(b, 'l'), -size)
	} else {
		b = appendSize(append(b, 'l'), size)
	}
	rest, mask := new(big.Int).Abs(n), big.NewInt(1<<digitBits-1)
	for range size {
		b = binary.LittleEndian.AppendUint16(b, uint16(new(big.Int).And(rest, mask).Uint64()))
		rest.Rsh(rest, digitBits)
	}
	return b
}

// readMarshalled decodes a marshalled frame of the guest: its kind, its id and its body.
func readMarshalled(data []byte) (f bridge.Frame, err error) {
	d := unmarshaller{rest: data}
	v := d.value(-1) // the frame does not count as nesting
	list, _ := v.([]bridge.Value)
	if d.bad || len(d.rest) > 0 || len(list) != 3 {
		return f, errNotMarshal
	}
	kind, isKind := list[0].(int64)
	id, isID := list[1].(int64)
	body, isBody := list[2].(bridge.Map)
	if !isKind || !isID || !isBody || kind < 0 || kind > math.MaxUint8 || id < 0 {
		return f, fmt.Errorf("a frame without a header: %w", errNotMarshal)
	}
	return bridge.Frame{Kind: bridge.Kind(kind), ID: uint64(id), Body: body}, nil
}

// unmarshaller reads data that a possibly hostile guest wrote. After an error it
// reads no further.
type unmarshaller struct {
	rest []byte
	bad  bool
}

func (d *unmarshaller) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.rest) {
		d.bad, d.rest = true, nil
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *unmarshaller) size() int {
	if raw := d.take(4); raw != nil {
		return int(int32(binary.LittleEndian.Uint32(raw)))
	}
	return 0
}

func (d *unmarshaller) value(depth int) bridge.Value {
	kind := d.take(1)
	if kind == nil || depth > bridge.MaxNesting {
		d.bad = true
		return nil
	}
	switch kind[0] {
	case 'N':
		return nil
	case 'T', 'F':
		return kind[0] == 'T'
	case 'i':
		return int64(d.size())
	case 'l':
		return d.integer()
	case 'g':
		return d.float()
	case 'u', 't':
		return d.text()
	case 's':
		return slices.Clone(d.take(d.size()))
	case '[', tupleByte:
		return d.list(depth)
	case '{':
		return d.mapping(depth)
	}
	d.bad = true
	return nil
}

func (d *unmarshaller) text() string {
	raw := d.take(d.size())
	d.bad = d.bad || !utf8.Valid(raw)
	return string(raw)
}

func (d *unmarshaller) float() float64 {
	raw := d.take(8)
	if raw == nil {
		return 0
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(raw))
	d.bad = d.bad || math.IsNaN(f) || math.IsInf(f, 0)
	return f
}

// maxDigits is how many digits an integer may have that crosses the bridge.
const maxDigits = 64 << 10 * 8 / digitBits

func (d *unmarshaller) integer() bridge.Value {
	size := d.size()
	digits := max(size, -size)
	if digits > maxDigits {
		d.bad = true
		return nil
	}
	raw, bytes := d.take(2*digits), make([]byte, 0, 2*digits)
	// The digits as bytes, lowest first.
	var held, bits uint32
	for ; len(raw) > 0; raw = raw[2:] {
		held |= uint32(binary.LittleEndian.Uint16(raw)) << bits
		for bits += digitBits; bits >= 8; bits -= 8 {
			bytes, held = append(bytes, byte(held)), held>>8
		}
	}
	bytes = append(bytes, byte(held))
	slices.Reverse(bytes)
	n := new(big.Int).SetBytes(bytes)
	if size < 0 {
		n.Neg(n)
	}
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

func (d *unmarshaller) list(depth int) []bridge.Value {
	n := d.size()
	if n < 0 || n > len(d.rest) {
		d.bad = true
		return nil
	}
	list := make([]bridge.Value, 0, min(n, 64)) // grows with the data
	for range n {
		if list = append(list, d.value(depth+1)); d.bad {
			return nil
		}
	}
	return list
}

func (d *unmarshaller) mapping(depth int) bridge.Map {
	m := bridge.Map{}
	for !d.bad && len(d.rest) > 0 {
		if d.rest[0] == '0' {
			d.take(1)
			return m
		}
		key, isText := d.value(depth + 1).(string)
		if !isText {
			break
		}
		m = append(m, bridge.Member{Key: key, Value: d.value(depth + 1)})
	}
	d.bad = true
	return nil
}
