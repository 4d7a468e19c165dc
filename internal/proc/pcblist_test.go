package proc

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// pcbs returns a list of sockets as macOS writes it.
type pcbs struct{ list []byte }

func newPCBs() *pcbs {
	p := &pcbs{}
	p.record(24, 2, nil) // the header has the number of sockets where records have a kind
	return p
}

func (p *pcbs) record(size, kind int, fill func([]byte)) {
	b := make([]byte, (size+7)&^7)
	binary.LittleEndian.PutUint32(b, uint32(size))
	binary.LittleEndian.PutUint32(b[4:], uint32(kind))
	if fill != nil {
		fill(b)
	}
	p.list = append(p.list, b...)
}

func (p *pcbs) socket(local, remote string, uid uint32) *pcbs {
	l, r := netip.MustParseAddrPort(local), netip.MustParseAddrPort(remote)
	p.record(104, 0x10, func(b []byte) {
		binary.BigEndian.PutUint16(b[16:], r.Port())
		binary.BigEndian.PutUint16(b[18:], l.Port())
		if l.Addr().Is4() {
			b[44] = 1
			copy(b[60:], r.Addr().AsSlice())
			copy(b[76:], l.Addr().AsSlice())
		} else {
			b[44] = 2
			copy(b[48:], r.Addr().AsSlice())
			copy(b[64:], l.Addr().AsSlice())
		}
	})
	p.record(76, 0x01, func(b []byte) { binary.LittleEndian.PutUint32(b[64:], uid) })
	for _, kind := range []int{0x02, 0x04} {
		p.record(32, kind, nil)
	}
	p.record(136, 0x08, nil)
	p.record(204, 0x20, nil)
	return p
}

func TestTheListOfSocketsOfMacOSTellsTheUser(t *testing.T) {
	t.Parallel()
	const own = 501
	server, client := netip.MustParseAddrPort("127.0.0.1:7070"), netip.MustParseAddrPort("127.0.0.1:50001")
	p := newPCBs().socket("127.0.0.1:7070", "0.0.0.0:0", own).socket("127.0.0.1:7070", "127.0.0.1:50001", own).
		socket("127.0.0.1:50002", "127.0.0.1:7070", 0).socket("127.0.0.1:50001", "127.0.0.1:7070", 502)
	p.record(24, 4, nil)
	if uid, found, err := pcbUser(p.list, client, server, own); uid != 502 || !found || err != nil {
		t.Errorf("the client: %d %v %v", uid, found, err)
	}
	v6 := newPCBs().socket("[::1]:50001", "[::1]:7070", 502).socket("[::1]:7070", "[::1]:50001", own)
	if uid, found, err := pcbUser(v6.list, netip.MustParseAddrPort("[::1]:50001"), netip.MustParseAddrPort("[::1]:7070"), own); uid != 502 || !found || err != nil {
		t.Errorf("the client over IPv6: %d %v %v", uid, found, err)
	}
	gone := newPCBs().socket("127.0.0.1:7070", "127.0.0.1:50001", own)
	if _, found, err := pcbUser(gone.list, client, server, own); found || err != nil {
		t.Errorf("a client that has gone: %v %v", found, err)
	}
	for name, list := range map[string][]byte{
		"empty":                  nil,
		"without our own end":    newPCBs().socket("127.0.0.1:50001", "127.0.0.1:7070", own).list,
		"our own end is another": newPCBs().socket("127.0.0.1:50001", "127.0.0.1:7070", 0).socket("127.0.0.1:7070", "127.0.0.1:50001", 7).list,
		"cut":                    p.list[:len(p.list)-4],
		"a record of no size":    append(newPCBs().list, make([]byte, 16)...),
	} {
		if uid, found, err := pcbUser(list, client, server, own); err == nil {
			t.Errorf("%s: %d %v", name, uid, found)
		}
	}
}
