// Package dnstest is a DNS server for tests.
package dnstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Server answers queries for a name with its addresses, one after the other, and then
// repeats the last one. So a name can resolve differently the second time.
type Server struct {
	mu      sync.Mutex
	answers map[string][]netip.Addr
	asked   map[string]int
}

// Serve starts a DNS server and returns a resolver that asks only this server.
func Serve(t *testing.T, answers map[string][]string) (*net.Resolver, *Server) {
	t.Helper()
	s := &Server{answers: map[string][]netip.Addr{}, asked: map[string]int{}}
	for name, addrs := range answers {
		for _, a := range addrs {
			s.answers[name+"."] = append(s.answers[name+"."], netip.MustParseAddr(a))
		}
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve(conn)
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, s
}

func (s *Server) serve(conn net.PacketConn) {
	packet := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		answer, err := s.answer(m)
		if err == nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

func (s *Server) answer(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.ToLower(q.Name.String())
	addrs, known := s.answers[name]
	if !known {
		s.asked[name]++
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	at := min(s.asked[name], len(addrs)-1)
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	switch addr := addrs[at]; {
	case q.Type == dnsmessage.TypeA && addr.Is4():
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
		s.asked[name]++
	case q.Type == dnsmessage.TypeAAAA && addr.Is6():
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
		s.asked[name]++
	}
	return m.Pack()
}

// Lookups returns the number of queries for a name, or of all queries if name is empty.
func (s *Server) Lookups(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for asked, n := range s.asked {
		if name == "" || asked == name+"." {
			sum += n
		}
	}
	return sum
}
