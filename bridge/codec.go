package bridge

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Values travel as a subset of CBOR (RFC 8949): definite lengths only, text
// keys without repeats, valid UTF-8, big integers as tags 2 and 3, date-times
// as tag 0, handles as tag 39 around a map.
const (
	majorUint = iota << 5
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

const (
	tagTime      = 0
	tagBigInt    = 2
	tagBigMinus  = 3
	tagHandle    = 39
	simpleFalse  = majorSimple | 20
	simpleTrue   = majorSimple | 21
	simpleNull   = majorSimple | 22
	simpleUndef  = majorSimple | 23
	float16      = majorSimple | 25
	float32bits  = majorSimple | 26
	float64bits  = majorSimple | 27
	maxBigBytes  = 1 << 16 // bounds the time that a guest can make the server spend on arithmetic
	minContainer = 16      // capacity allocated up front for a list or map, whatever length it announces
)

// AppendValue appends the encoding of v. It returns an error that names the part
// if a part is not a [Value] or nests deeper than [MaxNesting].
func AppendValue(b []byte, v Value) ([]byte, error) { return appendValue(b, v, 0) }

func appendValue(b []byte, v Value, depth int) ([]byte, error) {
	if depth > MaxNesting {
		return nil, fmt.Errorf("value nests deeper than %d", MaxNesting)
	}
	switch v := v.(type) {
	case nil:
		return append(b, simpleNull), nil
	case bool:
		if v {
			return append(b, simpleTrue), nil
		}
		return append(b, simpleFalse), nil
	case int64:
		return appendInt(b, v), nil
	case *big.Int:
		if err := checkBig(v); err != nil {
			return nil, err
		}
		return appendBig(b, v), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(b, float64bits), math.Float64bits(v)), nil
	case string:
		// Every reader refuses the whole frame for a text that is not UTF-8, and an
		// error can quote any bytes.
		v = strings.ToValidUTF8(v, "\ufffd")
		return append(appendHead(b, majorText, uint64(len(v))), v...), nil
	case []byte:
		return append(appendHead(b, majorBytes, uint64(len(v))), v...), nil
	case time.Time:
		return appendValue(appendHead(b, majorTag, tagTime), v.Format(time.RFC3339Nano), depth)
	case Handle:
		return appendValue(appendHead(b, majorTag, tagHandle), v.members(), depth)
	case []Value:
		b = appendHead(b, majorArray, uint64(len(v)))
		for i, item := range v {
			var err error
			if b, err = appendValue(b, item, depth+1); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return b, nil
	case Map:
		b = appendHead(b, majorMap, uint64(len(v)))
		for _, m := range v {
			if !utf8.ValidString(m.Key) {
				return nil, fmt.Errorf(".%.40q: a key that is not UTF-8", m.Key)
			}
			b = append(appendHead(b, majorText, uint64(len(m.Key))), m.Key...)
			var err error
			if b, err = appendValue(b, m.Value, depth+1); err != nil {
				return nil, fmt.Errorf(".%s: %w", m.Key, err)
			}
		}
		return b, nil
	}
	return nil, fmt.Errorf("the bridge cannot carry a %T", v)
}

func appendHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n <= math.MaxUint8:
		return append(b, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

func appendInt(b []byte, n int64) []byte {
	if n < 0 {
		return appendHead(b, majorNegative, uint64(-1-n))
	}
	return appendHead(b, majorUint, uint64(n))
}

func appendBig(b []byte, n *big.Int) []byte {
	if n.IsInt64() {
		return appendInt(b, n.Int64())
	}
	tag, magnitude := uint64(tagBigInt), n
	if n.Sign() < 0 {
		tag, magnitude = tagBigMinus, new(big.Int).Not(n) // -1 - n
	}
	raw := magnitude.Bytes()
	return append(appendHead(appendHead(b, majorTag, tag), majorBytes, uint64(len(raw))), raw...)
}

// decoder reads values from data. A hostile guest may have written data, so the
// decoder never allocates more than the bytes that are left justify.
type decoder struct {
	data   []byte
	pos    int
	values int // read so far
	lists  int // and maps
}

// The most values, and among them lists and maps, of one frame. A value takes up
// to 40 times as much memory as its bytes.
const (
	maxValues = 5 << 20
	maxLists  = 1 << 20
)

// DecodeValue reads exactly one value. The strings and bytes in it are copies.
func DecodeValue(data []byte) (Value, error) {
	d := decoder{data: data}
	v, err := d.value(0)
	if err != nil {
		return nil, fmt.Errorf("byte %d: %w", d.pos, err)
	}
	if d.pos != len(data) {
		return nil, fmt.Errorf("byte %d: %d bytes after the value", d.pos, len(data)-d.pos)
	}
	return v, nil
}

func (d *decoder) value(depth int) (Value, error) {
	if depth > MaxNesting {
		return nil, fmt.Errorf("nests deeper than %d", MaxNesting)
	}
	if d.values++; d.values > maxValues {
		return nil, fmt.Errorf("more than %d values", maxValues)
	}
	if d.pos < len(d.data) && d.data[d.pos]&0xe0 == majorSimple {
		return d.simple()
	}
	major, n, err := d.head()
	if err != nil {
		return nil, err
	}
	if major == majorArray || major == majorMap {
		if d.lists++; d.lists > maxLists {
			return nil, fmt.Errorf("more than %d lists and maps", maxLists)
		}
	}
	switch major {
	case majorUint:
		if n > math.MaxInt64 {
			return new(big.Int).SetUint64(n), nil
		}
		return int64(n), nil
	case majorNegative:
		if n > math.MaxInt64 {
			return new(big.Int).Not(new(big.Int).SetUint64(n)), nil
		}
		return -1 - int64(n), nil
	case majorBytes:
		raw, err := d.next(n)
		return append([]byte{}, raw...), err
	case majorText:
		return d.text(n)
	case majorArray:
		return d.array(n, depth)
	case majorMap:
		return d.mapping(n, depth)
	}
	return d.tagged(n, depth)
}

// head reads a type and its argument, in the shortest form or a longer one.
func (d *decoder) head() (major byte, n uint64, err error) {
	first, err := d.next(1)
	if err != nil {
		return 0, 0, err
	}
	major, info := first[0]&0xe0, first[0]&0x1f
	if info < 24 {
		return major, uint64(info), nil
	}
	if info > 27 {
		return 0, 0, fmt.Errorf("indefinite or reserved length 0x%02x", first[0])
	}
	raw, err := d.next(1 << (info - 24))
	for _, c := range raw {
		n = n<<8 | uint64(c)
	}
	return major, n, err
}

func (d *decoder) next(n uint64) ([]byte, error) {
	if n > uint64(len(d.data)-d.pos) {
		return nil, fmt.Errorf("%d bytes are announced and %d are there", n, len(d.data)-d.pos)
	}
	raw := d.data[d.pos : d.pos+int(n)]
	d.pos += int(n)
	return raw, nil
}

func (d *decoder) text(n uint64) (string, error) {
	raw, err := d.next(n)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("text is not UTF-8")
	}
	return string(raw), nil
}

func (d *decoder) array(n uint64, depth int) (Value, error) {
	list := make([]Value, 0, min(n, minContainer))
	for range n {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *decoder) mapping(n uint64, depth int) (Value, error) {
	m := make(Map, 0, min(n, minContainer))
	var seen map[string]struct{} // for a map too large for a linear search
	if n > minContainer {
		seen = map[string]struct{}{}
	}
	for range n {
		major, length, err := d.head()
		if err != nil {
			return nil, err
		}
		if major != majorText {
			return nil, fmt.Errorf("a key that is not text")
		}
		key, err := d.text(length)
		if err != nil {
			return nil, err
		}
		if m.has(key, seen) {
			return nil, fmt.Errorf("duplicate key %.80q", key)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		m = append(m, Member{key, v})
	}
	return m, nil
}

// has reports whether m contains key. If seen is not nil, it holds all keys of m,
// and has adds key to it.
func (m Map) has(key string, seen map[string]struct{}) bool {
	if seen == nil {
		return slices.ContainsFunc(m, func(member Member) bool { return member.Key == key })
	}
	_, twice := seen[key]
	seen[key] = struct{}{}
	return twice
}

func (d *decoder) tagged(tag uint64, depth int) (Value, error) {
	v, err := d.value(depth + 1)
	if err != nil {
		return nil, err
	}
	switch content := v.(type) {
	case []byte:
		if len(content) > maxBigBytes {
			return nil, fmt.Errorf("an integer of %d bytes, the limit is %d", len(content), maxBigBytes)
		}
		n := new(big.Int).SetBytes(content)
		if tag == tagBigMinus {
			n.Not(n)
		}
		if tag == tagBigInt || tag == tagBigMinus {
			if n.IsInt64() {
				return n.Int64(), nil
			}
			return n, nil
		}
	case string:
		if tag == tagTime {
			return time.Parse(time.RFC3339Nano, content)
		}
	case Map:
		if tag == tagHandle {
			return Handle{ID: content.Text("handle"), MediaType: content.Text("media_type"), Size: content.Int("size")}, nil
		}
	}
	return nil, fmt.Errorf("unexpected tag %d around a %T", tag, v)
}

func (d *decoder) simple() (Value, error) {
	first := d.data[d.pos]
	d.pos++
	switch first {
	case simpleFalse:
		return false, nil
	case simpleTrue:
		return true, nil
	case simpleNull, simpleUndef:
		return nil, nil
	case float16:
		raw, err := d.next(2)
		if err != nil {
			return nil, err
		}
		return halfFloat(binary.BigEndian.Uint16(raw)), nil
	case float32bits:
		raw, err := d.next(4)
		if err != nil {
			return nil, err
		}
		return float64(math.Float32frombits(binary.BigEndian.Uint32(raw))), nil
	case float64bits:
		raw, err := d.next(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(raw)), nil
	}
	return nil, fmt.Errorf("unexpected simple value 0x%02x", first)
}

// halfFloat widens an IEEE 754 half (RFC 8949 appendix D).
func halfFloat(h uint16) float64 {
	exponent, mantissa := int(h>>10&0x1f), float64(h&0x3ff)
	var v float64
	switch exponent {
	case 0:
		v = math.Ldexp(mantissa, -24)
	case 31:
		v = math.Inf(1)
		if mantissa != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(mantissa+1024, exponent-25)
	}
	if h&0x8000 != 0 {
		return -v
	}
	return v
}
