package protocol

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolroom/toolroom/bridge"
)

// The values of one message cross as an arena: a list of nodes, in which
// containers name their items by index, and each item comes before what holds it.

// Fields of a node.
const (
	nodeNone      = 2
	nodeBool      = 4
	nodeInt       = 5
	nodeBigInt    = 6
	nodeFloat     = 7
	nodeText      = 8
	nodeBytes     = 9
	nodeList      = 11
	nodeTuple     = 12
	nodeNamed     = 13
	nodeDict      = 14
	nodeSet       = 15
	nodeFrozenSet = 16
	nodeDate      = 17
	nodeMoment    = 19
	nodeException = 22
	nodeType      = 23
	nodeInstance  = 24
	nodeFunction  = 25
	nodeBuiltin   = 26
	nodePath      = 27
	nodeRepr      = 29
	nodeCycle     = 30
)

// arena encodes the values of a request.
type arena struct {
	count uint32
	nodes []byte
}

// encode returns the arena as a message.
func (a *arena) encode() []byte {
	return append(appendUint(nil, 1, uint64(a.count)), a.nodes...)
}

func (a *arena) push(node []byte) uint32 {
	a.nodes = appendMessage(a.nodes, 2, node)
	a.count++
	return a.count - 1
}

// add adds a value, and returns its index.
func (a *arena) add(v any) uint32 {
	switch v := v.(type) {
	case nil:
		return a.push(appendMessage(nil, nodeNone, nil))
	case bool:
		return a.push(appendUint(nil, nodeBool, protowire.EncodeBool(v)))
	case int64:
		return a.push(appendUint(nil, nodeInt, protowire.EncodeZigZag(v)))
	case *big.Int:
		var b []byte
		if v.Sign() < 0 {
			b = appendUint(b, 1, 1)
		}
		return a.push(appendMessage(nil, nodeBigInt, appendMessage(b, 2, v.Bytes())))
	case float64:
		b := protowire.AppendTag(nil, nodeFloat, protowire.Fixed64Type)
		return a.push(protowire.AppendFixed64(b, math.Float64bits(v)))
	case string:
		return a.push(appendText(nil, nodeText, v))
	case []byte:
		return a.push(appendMessage(nil, nodeBytes, v))
	case []any:
		var items []byte
		for _, item := range v {
			items = protowire.AppendVarint(items, uint64(a.add(item)))
		}
		return a.push(appendMessage(nil, nodeList, appendMessage(nil, 1, items)))
	case bridge.Map:
		var pairs []byte
		for _, m := range v {
			pairs = appendMessage(pairs, 1, a.pair(m.Key, m.Value))
		}
		return a.push(appendMessage(nil, nodeDict, pairs))
	case time.Time:
		return a.push(appendMessage(nil, nodeMoment, encodeTime(v)))
	case Instance:
		return a.instance(v)
	case Function:
		return a.push(appendMessage(nil, nodeFunction, appendText(nil, 1, v.Name)))
	}
	return a.add(fmt.Sprint(v)) // not a value that a program can hold
}

func (a *arena) pair(key, value any) []byte {
	b := appendUint(nil, 1, uint64(a.add(key)))
	return appendUint(b, 2, uint64(a.add(value)))
}

// hostClass is the origin of a class that the host defines.
const hostClass = 3

func (a *arena) instance(i Instance) uint32 {
	id := i.ID
	id[0] = 0xff // that of the class: one for each object
	class := appendText(nil, 1, i.Class)
	class = appendMessage(class, 2, appendMessage(nil, 1, id[:]))
	class = appendUint(class, 3, hostClass)
	b := appendUint(nil, 1, uint64(a.push(appendMessage(nil, nodeType, class))))
	b = appendMessage(b, 2, appendMessage(nil, 1, i.ID[:]))
	var attrs []byte
	for _, m := range i.Attrs {
		attrs = appendMessage(attrs, 1, a.pair(m.Key, m.Value))
	}
	return a.push(appendMessage(nil, nodeInstance, appendMessage(b, 3, attrs)))
}

func encodeTime(t time.Time) []byte {
	_, offset := t.Zone()
	var b []byte
	for i, n := range []int{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond() / 1000, offset} {
		b = appendUint(b, protowire.Number(i+1), uint64(int64(n)))
	}
	return b
}

// values are the values of an event.
type values struct {
	nodes []any // in their order
	uses  int   // how often a container or a call holds one of them
}

// MaxNodes is the maximum number of values that are read of one event, and of places in which
// containers hold them. A value of a byte or two in a frame takes fifty bytes in this process,
// and a place of one byte takes sixteen.
const MaxNodes = 2 << 20

var errTooManyValues = fmt.Errorf("the Monty worker sent more than %d values at once", MaxNodes)

func readArena(message []byte) (*values, error) {
	all := &values{}
	err := eachField(message, func(number protowire.Number, _ uint64, b []byte) error {
		if number != 2 {
			return nil
		}
		if len(all.nodes) == MaxNodes {
			return errTooManyValues
		}
		v, err := all.node(b)
		all.nodes = append(all.nodes, v)
		return err
	})
	return all, err
}

// at returns the value with an index, which must have been read already.
func (all *values) at(index uint64) (any, error) {
	if index >= uint64(len(all.nodes)) {
		return nil, fmt.Errorf("the Monty worker sent the index %d of a value that is not there", index)
	}
	return all.nodes[index], nil
}

// use returns the value with an index, for a place that holds it.
func (all *values) use(index uint64) (any, error) {
	if all.uses++; all.uses > MaxNodes {
		return nil, errTooManyValues
	}
	return all.at(index)
}

func (all *values) node(body []byte) (v any, err error) {
	err = eachField(body, func(number protowire.Number, n uint64, b []byte) (err error) {
		switch number {
		case nodeNone:
			v = nil
		case nodeBool:
			v = n != 0
		case nodeInt:
			v = protowire.DecodeZigZag(n)
		case nodeBigInt:
			v, err = readInteger(b)
		case nodeFloat:
			v = math.Float64frombits(n)
		case nodeText, nodePath:
			v = string(b)
		case nodeBytes:
			v = append([]byte{}, b...)
		case nodeList, nodeTuple, nodeSet, nodeFrozenSet:
			v, err = all.items(b, 1)
		case nodeNamed:
			v, err = all.items(b, 3)
		case nodeDict:
			v, err = all.dict(b)
		case nodeDate, nodeMoment:
			v, err = readMoment(b, number == nodeDate)
		case nodeException:
			v, err = readException(b)
		case nodeType:
			v, err = readClass(b)
		case nodeInstance:
			v, err = all.object(b)
		case nodeFunction:
			v, err = readNamed(b, "the function ")
		case nodeBuiltin:
			v = Opaque("the function " + string(b))
		case nodeRepr:
			v = Opaque(b)
		case nodeCycle:
			v = Cycle{}
		default:
			v = Opaque("a value of a kind that only Python has")
		}
		return err
	})
	return v, err
}

func (all *values) items(body []byte, field protowire.Number) ([]any, error) {
	list := []any{}
	err := eachField(body, func(number protowire.Number, n uint64, b []byte) error {
		if number != field {
			return nil
		}
		return indexes(n, b, func(index uint64) error {
			v, err := all.use(index)
			list = append(list, v)
			return err
		})
	})
	return list, err
}

// indexes reads numbers, packed or one by one.
func indexes(n uint64, packed []byte, f func(uint64) error) error {
	if packed == nil {
		return f(n)
	}
	for len(packed) > 0 {
		n, size := protowire.ConsumeVarint(packed)
		if size < 0 {
			return malformed(size)
		}
		if err := f(n); err != nil {
			return err
		}
		packed = packed[size:]
	}
	return nil
}

func (all *values) dict(body []byte) (Dict, error) {
	d := Dict{}
	err := eachField(body, func(_ protowire.Number, _ uint64, b []byte) error {
		p, err := all.readPair(b)
		d = append(d, p)
		return err
	})
	return d, err
}

func (all *values) readPair(body []byte) (p Pair, err error) {
	var key, value uint64
	if err = eachField(body, func(number protowire.Number, n uint64, _ []byte) error {
		switch number {
		case 1:
			key = n
		case 2:
			value = n
		}
		return nil
	}); err != nil {
		return p, err
	}
	if p.Key, err = all.at(key); err == nil {
		p.Value, err = all.use(value)
	}
	return p, err
}

func (all *values) object(body []byte) (Object, error) {
	var o Object
	var index uint64
	err := eachField(body, func(number protowire.Number, n uint64, b []byte) (err error) {
		switch number {
		case 1:
			index = n
		case 2:
			err = readID(b, &o.ID)
		case 3:
			o.Attrs, err = all.dict(b)
		}
		return err
	})
	if err != nil {
		return o, err
	}
	class, err := all.at(index)
	o.Class, _ = class.(Class)
	return o, err
}

func readClass(body []byte) (c Class, err error) {
	err = eachField(body, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 1:
			c.Name = string(b)
		case 4:
			c.Dataclass = n != 0
		}
		return nil
	})
	return c, err
}

func readNamed(body []byte, what string) (v Opaque, err error) {
	err = eachField(body, func(number protowire.Number, _ uint64, b []byte) error {
		if number == 1 {
			v = Opaque(what + string(b))
		}
		return nil
	})
	return v, err
}

func readInteger(body []byte) (any, error) {
	n := new(big.Int)
	negative := false
	err := eachField(body, func(number protowire.Number, v uint64, b []byte) error {
		switch number {
		case 1:
			negative = v != 0
		case 2:
			n.SetBytes(b)
		}
		return nil
	})
	if negative {
		n.Neg(n)
	}
	if n.IsInt64() {
		return n.Int64(), err
	}
	return n, err
}

// readMoment reads a date as text, in the form that JSON uses, and a date-time as a
// [time.Time]. A date-time without a zone is taken as UTC.
func readMoment(body []byte, date bool) (any, error) {
	var part [9]int
	err := eachField(body, func(number protowire.Number, n uint64, _ []byte) error {
		if int(number) < len(part) {
			part[number] = int(int32(n))
		}
		return nil
	})
	zone := time.UTC
	if part[8] != 0 {
		zone = time.FixedZone("", part[8])
	}
	t := time.Date(part[1], time.Month(part[2]), part[3], part[4], part[5], part[6], part[7]*1000, zone)
	if date {
		return t.Format(time.DateOnly), err
	}
	return t, err
}
